"""The Redis protocol as bytes: requests to words, replies to bytes. No sockets, no commands.

Two parsers give one answer. The strict one follows Redis byte for byte: inline commands, empty
lines, limits, error texts. The fast one lets hiredis read a whole chunk and then encodes what it
found: only if that gives back exactly the bytes that came were they a canonical request, and then
both parsers must agree; anything else goes to the strict one. hiredis alone would not do: it has
no limits, allocates from a header, and takes much that is no request.
"""

from __future__ import annotations

import re
from collections import deque

import hiredis

from goblin_raft.reply import Failure, Map, Reply, Status

INLINE_BYTES_MAX = 65_536  # Redis's PROTO_INLINE_MAX_SIZE
ARGUMENTS_MAX = 1_048_576  # Redis 6's bound
# Above this a bulk's length is a protocol error; up to here it is read, so that a value over its
# limit can be refused with the connection intact.
BULK_BYTES_MAX = 16 * 1024 * 1024

_LENGTH = re.compile(rb"0|-?[1-9][0-9]{0,18}")
# Headers that would make hiredis allocate before any data has come.
_LARGE_HEADER = re.compile(rb"\*[^\r]{5,}\r|\*[-+]")


class RequestParser:
    """Feed bytes, take requests. After `error` is set nothing more comes: answer it and close."""

    def __init__(self, *, fast: bool = True, bulk_bytes_max: int = BULK_BYTES_MAX) -> None:
        self.error: str | None = None
        self.ready: deque[list[bytes]] = deque()
        self._fast = fast
        self._bulk_bytes_max = bulk_bytes_max
        self._reader: hiredis.Reader | None = None
        self._buffer = bytearray()
        self._position = 0
        self._missing = 0  # words of the current request that are still to come
        self._words: list[bytes] = []
        self._bulk_length = -1

    @property
    def buffered_bytes(self) -> int:
        """Bytes of a request that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take what arrived; whole requests are in `ready` afterwards."""
        if self.error is not None:
            return
        if self._fast and not self._buffer and not self._missing and data[:1] == b"*":
            data = data[self._parse_fast(data) :]
            if not data:
                return
        self._buffer += data
        self._parse_strict()

    def _parse_fast(self, data: bytes) -> int:
        """Requests at the beginning of `data` that are canonical; how many bytes they are."""
        if _LARGE_HEADER.search(data):
            return 0
        reader = self._reader or hiredis.Reader()
        self._reader = None
        found: list[list[bytes]] = []
        encoded: list[bytes] = []
        try:
            reader.feed(data)
            while type(request := reader.gets()) is list and request:
                encoded.append(hiredis.pack_command(tuple(request)))
                found.append(request)
        except Exception:  # hiredis raises several kinds; the strict parser knows what is wrong
            return 0
        canonical = b"".join(encoded)
        if canonical == data:
            self._reader = reader  # nothing is left in it
        elif not data.startswith(canonical):
            return 0
        self.ready.extend(found)
        return len(canonical)

    def _parse_strict(self) -> None:
        while self.error is None:
            if self._missing:
                if not self._read_words():
                    break
            elif self._position >= len(self._buffer):
                break
            elif self._buffer[self._position] == 0x2A:  # *
                if not self._read_count():
                    break
            elif not self._read_inline():
                break
        if self._position:
            del self._buffer[: self._position]
            self._position = 0

    def _line(self, too_big: str) -> bytes | None:
        """The header line at the position, without its CR LF; None while it is not whole."""
        end = self._buffer.find(b"\r", self._position)
        if end < 0:
            if len(self._buffer) - self._position > INLINE_BYTES_MAX:
                self.error = too_big
            return None
        if end + 2 > len(self._buffer):
            return None
        line = bytes(self._buffer[self._position : end])
        self._position = end + 2
        return line

    def _read_count(self) -> bool:
        line = self._line("too big mbulk count string")
        if line is None:
            return False
        if _LENGTH.fullmatch(line, 1) is None or int(line[1:]) > ARGUMENTS_MAX:
            self.error = "invalid multibulk length"
            return False
        self._missing = max(0, int(line[1:]))
        self._words = []
        return True

    def _read_words(self) -> bool:
        """Read words until the request is whole (True) or bytes are missing (False)."""
        while self._missing:
            if self._bulk_length < 0:
                start = self._position
                line = self._line("too big bulk count string")
                if line is None:
                    return False
                if line[:1] != b"$":
                    got = chr(self._buffer[start]) if line else "\r"
                    self.error = f"expected '$', got '{got}'"
                    return False
                length = int(line[1:]) if _LENGTH.fullmatch(line, 1) else -1
                if not 0 <= length <= self._bulk_bytes_max:
                    self.error = "invalid bulk length"
                    return False
                self._bulk_length = length
            end = self._position + self._bulk_length
            if len(self._buffer) < end + 2:
                return False
            self._words.append(bytes(self._buffer[self._position : end]))
            self._position = end + 2  # Redis does not look at these two bytes either
            self._bulk_length = -1
            self._missing -= 1
        self.ready.append(self._words)
        return True

    def _read_inline(self) -> bool:
        end = self._buffer.find(b"\n", self._position)
        if end < 0:
            if len(self._buffer) - self._position > INLINE_BYTES_MAX:
                self.error = "too big inline request"
            return False
        line = bytes(self._buffer[self._position : end])
        self._position = end + 1
        words = split_inline(line.removesuffix(b"\r"))
        if words is None:
            self.error = "unbalanced quotes in request"
            return False
        if words:
            self.ready.append(words)
        return True


_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
_BLANK = b" \t\n\r\v\f\0"


def split_inline(line: bytes) -> list[bytes] | None:
    """The words of an inline command, with Redis's quoting; None if quotes do not fit."""
    words: list[bytes] = []
    position = 0
    while True:
        while position < len(line) and line[position] in _BLANK:
            position += 1
        if position >= len(line):
            return words
        word, position = _inline_word(line, position)
        if word is None:
            return None
        words.append(word)


def _inline_word(line: bytes, position: int) -> tuple[bytes | None, int]:
    word = bytearray()
    quote = b""
    while position < len(line):
        char = line[position : position + 1]
        if quote == b'"' and char == b"\\":
            hexadecimal = re.compile(rb"\\x([0-9a-fA-F]{2})").match(line, position)
            if hexadecimal:
                word.append(int(hexadecimal[1], 16))
                position += 4
                continue
            if position + 1 < len(line):
                escaped = line[position + 1 : position + 2]
                word += _ESCAPES.get(escaped, escaped)
                position += 2
                continue
            word += char
        elif quote == b"'" and line[position : position + 2] == b"\\'":
            word += b"'"
            position += 2
            continue
        elif quote and char == quote:
            # A closing quote must end the word.
            after = line[position + 1 : position + 2]
            if after and after not in _BLANK:
                return None, position
            return bytes(word), position + 1
        elif not quote and char in (b'"', b"'"):
            quote = char
        elif not quote and char in _BLANK:
            return bytes(word), position
        else:
            word += char
        position += 1
    return (None if quote else bytes(word)), position


def encode_all(replies: list[Reply], protocol: int) -> bytes:
    """The bytes of several replies, in order."""
    out: list[bytes] = []
    for reply in replies:
        _encode(out, reply, protocol)
    return b"".join(out)


def _encode(out: list[bytes], reply: Reply, protocol: int) -> None:
    if type(reply) is bytes:
        out.append(b"$%d\r\n%b\r\n" % (len(reply), reply))
    elif type(reply) is int:
        out.append(b":%d\r\n" % reply)
    elif reply is None:
        out.append(b"$-1\r\n" if protocol == 2 else b"_\r\n")
    elif type(reply) is Status:
        out.append(b"+%b\r\n" % reply.text)
    elif type(reply) is Failure:
        # A CR or LF inside would end the line, and the rest would pass for another reply.
        text = reply.text.replace("\r", " ").replace("\n", " ")
        out.append(b"-%b\r\n" % text.encode("utf-8", "surrogateescape"))
    elif type(reply) is Map:
        size = len(reply.items)
        out.append(b"*%d\r\n" % (2 * size) if protocol == 2 else b"%%%d\r\n" % size)
        for name, value in reply.items.items():
            _encode(out, name, protocol)
            _encode(out, value, protocol)
    else:
        assert type(reply) is list, reply
        out.append(b"*%d\r\n" % len(reply))
        for item in reply:
            _encode(out, item, protocol)
