"""Reads SQLite's write-ahead file before SQLite does, and tells a torn end from damage.

SQLite goes by the checksums, each of which includes all before it, and silently ends where one does
not fit. Knows the file's format (sqlite.org, "WAL-mode File Format") and nothing of what is in it.

Invariant: of each transaction all frames are synced before the next one begins, and the file begins
anew at every start. So only the last transaction can be torn: where a frame does not fit and frames
of the same generation come after the end of its transaction, bytes have changed since.
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER = struct.Struct(">IIIIIIII")  # magic, version, page size, checkpoint, salts, checksums
_FRAME = struct.Struct(">IIIIII")  # page, pages after the commit or 0, salts, checksums
_MAGIC = 0x377F0682  # the lowest bit says that checksums are big endian
_MASK = 0xFFFFFFFF


def damage_in_wal(path: Path) -> str | None:
    """What is wrong with the file at `path`, or None; None also where there is none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) <= _HEADER.size + _FRAME.size:
        return None  # nothing was ever in it
    magic, _, page_bytes, _, *salts, sum0, sum1 = _HEADER.unpack_from(data)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _MAGIC or _checksum(data[:24], (0, 0), order) != (sum0, sum1):
        return "its header does not match its checksum"
    size = _FRAME.size + page_bytes
    sums = (sum0, sum1)
    frames = (len(data) - _HEADER.size) // size
    for number in range(frames):
        at = _HEADER.size + number * size
        _, _, *found_salts, sum0, sum1 = _FRAME.unpack_from(data, at)
        sums = _checksum(data[at : at + 8], sums, order)
        sums = _checksum(data[at + _FRAME.size : at + size], sums, order)
        if found_salts != salts or sums != (sum0, sum1):
            return _damage_after(data, number, frames, size, salts)
    return None


def _damage_after(data: bytes, bad: int, frames: int, size: int, salts: list[int]) -> str | None:
    """Whether anything of this generation follows the transaction that the bad frame is in."""
    has_ended = False
    for number in range(bad, frames):
        _, commit, *found_salts, _, _ = _FRAME.unpack_from(data, _HEADER.size + number * size)
        if found_salts != salts:
            continue
        if has_ended:
            return f"frame {bad + 1} of {frames} does not match its checksum"
        has_ended = commit != 0
    return None


def _checksum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    one, two = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = (one + even + two) & _MASK
        two = (two + odd + one) & _MASK
    return one, two
