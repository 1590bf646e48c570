"""The Redis protocol as bytes: requests to words, replies to bytes. No sockets, no commands.

Two parsers give one answer. The strict one follows Redis byte for byte: inline commands, empty
lines, limits, error texts. The fast one splits what came at every CR LF and looks whether each word
is as long as the header before it says: if so, the strict parser must find the same words, because
it would take exactly these bytes; anything else is left to it. Neither allocates anything because
of a header. hiredis is not used here: it has no limits, and `>` with a large number after it, a
dozen bytes, makes it build a list of that length.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import chain

from goblin_raft.reply import (
    Double,
    Failure,
    Map,
    NullArray,
    Pairs,
    Push,
    Reply,
    Set,
    Several,
    Status,
    Verbatim,
)

INLINE_BYTES_MAX = 65_536  # Redis's PROTO_INLINE_MAX_SIZE
ARGUMENTS_MAX = 1_048_576  # Redis 6's bound
# Above this a bulk's length is a protocol error; up to here it is read, so that a value over its
# limit can be refused with the connection intact.
BULK_BYTES_MAX = 16 * 1024 * 1024
# A request is kept in memory until it is whole. Counted with a share for each word's own frame, so
# that a million empty words are not free.
REQUEST_BYTES_MAX = 2 * BULK_BYTES_MAX
WORD_OVERHEAD_BYTES = 40
# From somebody who has not said yet who it is: enough for HELLO with all its options. As in Redis.
RESTRICTED_ARGUMENTS_MAX = 10
RESTRICTED_BULK_BYTES_MAX = 16_384

_LENGTH = re.compile(rb"0|-?[1-9][0-9]{0,18}")
# The headers of ordinary requests, so that a look-up takes the place of reading a number.
_BULK_HEADERS = [b"$%d" % length for length in range(1024)]
_bulk_header = _BULK_HEADERS.__getitem__
_BULK_LENGTHS = {header: length for length, header in enumerate(_BULK_HEADERS)}
_COUNTS = {b"*%d" % count: count for count in range(1, 256)}


class RequestParser:
    """Feed bytes, take requests. After `error` is set nothing more comes: answer it and close."""

    def __init__(
        self,
        *,
        fast: bool = True,
        bulk_bytes_max: int = BULK_BYTES_MAX,
        request_bytes_max: int = REQUEST_BYTES_MAX,
    ) -> None:
        self.error: str | None = None
        self.ready: deque[list[bytes]] = deque()
        # The client has not said yet who it is. What is too large for such a client may follow the
        # request by which it does: parsing then stops, until `ready` was served and feed() comes.
        self.restricted = False
        self.stalled = False
        self._fast = fast
        self._bulk_bytes_max = bulk_bytes_max
        self._request_bytes_max = request_bytes_max
        # What is left of earlier chunks, and how many bytes of it the next step needs at least, so
        # that a large word that comes in many chunks is put together once.
        self._rest = bytearray()
        self._needed_bytes = 1
        # The request that is being read: words still to come, those that came, their size.
        self._missing = 0
        self._words: list[bytes] = []
        self._request_bytes = 0
        self._bulk_length = -1

    @property
    def buffered_bytes(self) -> int:
        """Bytes of a request that is not whole yet."""
        return len(self._rest) + self._request_bytes

    def feed(self, data: bytes) -> None:
        """Take what arrived; whole requests are in `ready` afterwards."""
        if self.error is not None:
            return
        if self.stalled and self.ready:
            self._rest += data
            return
        self.stalled = False
        position = 0
        if self._rest or self._missing:
            if self._rest:
                self._rest += data
                if len(self._rest) < self._needed_bytes:
                    return
                data = bytes(self._rest)
                self._rest.clear()
            # To the end of the request that was begun; what follows may be quick again.
            position = self._parse_strict(data, 0, requests_max=1)
        if self.error is None and not self._missing and self._fast and not self.restricted:
            position = self._parse_fast(data, position)
        if self.error is None and position < len(data) and not self.stalled:
            position = self._parse_strict(data, position)
        if self.error is None and position < len(data):
            self._rest += data[position:]

    # ---- ordinary requests -----------------------------------------------------------------------

    def _parse_fast(self, data: bytes, position: int) -> int:
        """Take requests as long as they are whole and ordinary; the position after them."""
        parts = (data[position:] if position else data).split(b"\r\n")
        last = len(parts) - 1  # what follows the last CR LF is not whole
        start = 0
        try:
            while start < last:
                count = _COUNTS[parts[start]]
                end = start + 1 + 2 * count
                if end > last:
                    break
                words = parts[start + 2 : end : 2]
                if parts[start + 1 : end : 2] != list(map(_bulk_header, map(len, words))):
                    break
                self.ready.append(words)
                start = end
        except LookupError:  # a count or a word that is not ordinary
            pass
        if start == last:
            return len(data) - len(parts[last])
        return position + sum(map(len, parts[:start])) + 2 * start

    # ---- every request ---------------------------------------------------------------------------

    def _parse_strict(self, data: bytes, position: int, requests_max: int = -1) -> int:
        """Take requests, at most `requests_max`; the position of the first byte not used."""
        end = len(data)
        self._needed_bytes = 1
        ready = self.ready
        until = len(ready) + requests_max if requests_max >= 0 else -1
        while position < end and len(ready) != until:
            before = position
            if self._missing:
                position = self._read_words(data, position)
                if self._missing:
                    break
            elif data[position] == 0x2A:  # *
                position = self._read_count(data, position)
            else:
                position = self._read_inline(data, position)
            if position == before or self.error is not None or self.stalled:
                break
        return position

    def _refuse_restricted(self, problem: str) -> None:
        """Too large for a client that nobody knows, unless what came before makes it known."""
        if self.ready:
            self.stalled = True
        else:
            self.error = problem

    def _line_end(self, data: bytes, position: int, too_big: str) -> int:
        """Where the header line at the position has its CR; -1 while CR LF are not there."""
        end = data.find(b"\r", position, position + INLINE_BYTES_MAX + 1)
        if end < 0:
            if len(data) - position > INLINE_BYTES_MAX:
                self.error = too_big
            return -1
        return end if end + 2 <= len(data) else -1

    def _read_count(self, data: bytes, position: int) -> int:
        end = self._line_end(data, position, "too big mbulk count string")
        if end < 0:
            return position
        line = data[position:end]
        if _LENGTH.fullmatch(line, 1) is None or int(line[1:]) > ARGUMENTS_MAX:
            self.error = "invalid multibulk length"
            return position
        if self.restricted and int(line[1:]) > RESTRICTED_ARGUMENTS_MAX:
            self._refuse_restricted("unauthenticated multibulk length")
            return position
        self._missing = max(0, int(line[1:]))
        self._words = []
        self._request_bytes = 0
        return end + 2

    def _read_words(self, data: bytes, position: int) -> int:
        """Read words until the request is whole or bytes are missing."""
        size = len(data)
        words = self._words
        while self._missing:
            length = self._bulk_length
            if length < 0:
                end = data.find(b"\r", position, position + 6)
                length = _BULK_LENGTHS.get(data[position:end], -1) if 0 <= end < size - 1 else -1
                if length < 0:
                    end = self._line_end(data, position, "too big bulk count string")
                    if end < 0 or (length := self._bulk_header(data[position:end])) < 0:
                        return position
                if self.restricted and length > RESTRICTED_BULK_BYTES_MAX:
                    self._refuse_restricted("unauthenticated bulk length")
                    return position
                position = end + 2
                self._request_bytes += length + WORD_OVERHEAD_BYTES
                if self._request_bytes > self._request_bytes_max:
                    self.error = "too big request"
                    return position
            end = position + length
            if size < end + 2:
                self._bulk_length = length
                self._needed_bytes = length + 2
                return position
            words.append(data[position:end])
            position = end + 2  # Redis does not look at these two bytes either
            self._bulk_length = -1
            self._missing -= 1
        self.ready.append(words)
        self._request_bytes = 0
        return position

    def _bulk_header(self, line: bytes) -> int:
        """The length that an unusual header gives; -1 with `error` set if it gives none."""
        if line[:1] != b"$":
            # The byte as it came; an empty line begins with its CR.
            got = line[:1].decode("utf-8", "surrogateescape") or "\r"
            self.error = f"expected '$', got '{got}'"
            return -1
        length = int(line[1:]) if _LENGTH.fullmatch(line, 1) else -1
        if not 0 <= length <= self._bulk_bytes_max:
            self.error = "invalid bulk length"
            return -1
        return length

    def _read_inline(self, data: bytes, position: int) -> int:
        limit = position + INLINE_BYTES_MAX + 1
        end = data.find(b"\n", position, limit)
        if data.find(b"\0", position, limit if end < 0 else end) >= 0:
            # Redis would wait for ever, because C's strings end here. It is no client of ours.
            self.error = "NUL in inline request"
            return position
        if end < 0:
            if len(data) - position > INLINE_BYTES_MAX:
                self.error = "too big inline request"
            return position
        words = split_inline(data[position:end].removesuffix(b"\r"))
        if words is None:
            self.error = "unbalanced quotes in request"
        elif words:
            self.ready.append(words)
        return end + 1


_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
_BLANKS = rb"[ \t\n\r\v\f]"
# Inside a word only these end it; the others are skipped before it and after a closing quote.
_PLAIN = re.compile(rb"[^ \t\n\r\"']+")
_DOUBLE_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"(?=' + _BLANKS + rb"|\Z)", re.DOTALL)
_SINGLE_QUOTED = re.compile(rb"'((?:[^'\\]|\\'|\\(?!'))*)'(?=" + _BLANKS + rb"|\Z)", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_SKIPPED = re.compile(_BLANKS + rb"*")


def split_inline(line: bytes) -> list[bytes] | None:
    """The words of an inline command, with Redis's quoting; None if quotes do not fit.

    A quoted part may follow a plain one in the same word, and ends the word.
    """
    words: list[bytes] = []
    position = _skip_blanks(line, 0)
    while position < len(line):
        word = b""
        if plain := _PLAIN.match(line, position):
            word = plain[0]
            position = plain.end()
        quote = line[position : position + 1]
        if quote in (b'"', b"'"):
            pattern = _DOUBLE_QUOTED if quote == b'"' else _SINGLE_QUOTED
            quoted = pattern.match(line, position)
            if quoted is None:
                return None
            position = quoted.end()
            if quote == b'"':
                word += _ESCAPE.sub(_unescaped, quoted[1])
            else:
                word += quoted[1].replace(b"\\'", b"'")
        words.append(word)
        position = _skip_blanks(line, position)
    return words


def _skip_blanks(line: bytes, position: int) -> int:
    skipped = _SKIPPED.match(line, position)
    return skipped.end() if skipped else position


def _unescaped(escape: re.Match[bytes]) -> bytes:
    if escape[1]:
        return bytes([int(escape[1], 16)])
    return _ESCAPES.get(escape[2], escape[2])


def encode_all(replies: list[Reply], protocol: int) -> bytes:
    """The bytes of several replies, in order."""
    return b"".join([encode(reply, protocol) for reply in replies])


def encode(reply: Reply, protocol: int) -> bytes:
    """The bytes of one reply. Its type decides the form, never its content."""
    if type(reply) is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if reply is None:
        return b"$-1\r\n" if protocol == 2 else b"_\r\n"
    if type(reply) is int:
        return b":%d\r\n" % reply
    if type(reply) is Status:
        return b"+%b\r\n" % reply.text
    if type(reply) is Failure:
        # A CR or LF inside would end the line, and the rest would pass for another reply.
        text = reply.text.replace("\r", " ").replace("\n", " ")
        return b"-%b\r\n" % text.encode("utf-8", "surrogateescape")
    if type(reply) is Map:
        members = [encode(each, protocol) for each in chain.from_iterable(reply.items.items())]
        return _map_header(len(reply.items), protocol) + b"".join(members)
    if type(reply) is Set:
        mark = b"*" if protocol == 2 else b"~"
        return b"%b%d\r\n%b" % (mark, len(reply.items), encode_all(reply.items, protocol))
    if type(reply) is Verbatim:
        if protocol == 2:
            return encode(reply.text, 2)
        return b"=%d\r\ntxt:%b\r\n" % (len(reply.text) + 4, reply.text)
    if type(reply) is Push:
        mark = b"*" if protocol == 2 else b">"
        return b"%b%d\r\n%b" % (mark, len(reply.items), encode_all(reply.items, protocol))
    if type(reply) is Several:
        return encode_all(reply.replies, protocol)
    if type(reply) is NullArray:
        return b"*-1\r\n" if protocol == 2 else b"_\r\n"
    if type(reply) is Double:
        number = b"%.17g" % reply.number
        return encode(number, protocol) if protocol == 2 else b",%b\r\n" % number
    if type(reply) is Pairs:
        if protocol == 2:
            return encode([each for pair in reply.items for each in pair], protocol)
        return encode([list(pair) for pair in reply.items], protocol)
    assert type(reply) is list, reply
    return b"*%d\r\n%b" % (len(reply), encode_all(reply, protocol))


def _map_header(size: int, protocol: int) -> bytes:
    return b"*%d\r\n" % (2 * size) if protocol == 2 else b"%%%d\r\n" % size


# What may be too long to be encoded in one go, and from how many members on.
NESTED = frozenset({list, Map})
LONG_MEMBERS = 64


def open_long(reply: Reply, protocol: int) -> tuple[bytes, Iterator[Reply]] | None:
    """The header of a long array or map, and the members that follow it; None if it is short."""
    if type(reply) is list and len(reply) > LONG_MEMBERS:
        return b"*%d\r\n" % len(reply), iter(reply)
    if type(reply) is Map and len(reply.items) > LONG_MEMBERS:
        return _map_header(len(reply.items), protocol), chain.from_iterable(reply.items.items())
    return None
