"""The digest against values of the reference implementation, on both sides of each limit."""

from __future__ import annotations

import pytest

from goblin_raft.xxh3 import digest

# Of bytes 0, 1, 2 ... 250, 0, 1 ..., so many of them.
EXPECTED = {
    0: b"2d06800538d394c2",
    1: b"c44bdff4074eecdb",
    2: b"d6645fc3051a9457",
    3: b"5f4299fc161c9cbb",
    4: b"60dab036a58211f2",
    5: b"b075753a84ca0fbe",
    8: b"3a1c2d7c85af88f8",
    9: b"e9612598145bb9dc",
    15: b"55ecedc2b87bb042",
    16: b"8355e3a6f61770db",
    17: b"9ef341a99de37328",
    31: b"4f36db8e4df378fd",
    32: b"3523581fe96e4c05",
    33: b"e68c56ba88991e58",
    64: b"6187eb9089b0ed55",
    65: b"6928c76ce90422d0",
    96: b"278a3e12ea046dfb",
    97: b"e7220282dc4e14f4",
    127: b"120b9787f8425f2f",
    128: b"85c6174c7ff4c46b",
    129: b"ec7642b431ba3e5a",
    144: b"028e1e35ff4c0a01",
    239: b"972b14e3c46f214b",
    240: b"375a384d957fe865",
    241: b"02e8cd95421c6d02",
    256: b"44f5d90dacde463a",
    512: b"5c021aac13954143",
    1023: b"d3d91d80ac495685",
    1024: b"e5d78bafa45b2aa5",
    1025: b"e95c42288f28186e",
    1088: b"1a848d807034c403",
    2048: b"25339063db861586",
    5000: b"b418500fc42320ee",
    100000: b"42c23aeead96750d",
}


@pytest.mark.parametrize("size", EXPECTED)
def test_the_reference_says_the_same(size):
    assert digest(bytes(at % 251 for at in range(size))) == EXPECTED[size]
