"""Which well-known scripts there are, by the SHA1 of their normal form, and what each one means.

The texts themselves are not kept: lua.py brings a text into its normal form, and these numbers are
that form's SHA1. `TEXTS` has the SHA1 of texts as client libraries send them, so that EVALSHA finds
its script on a node that never saw the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from goblin_raft.reply import OK, Reply

# The words of a request, from the script's keys and arguments.
Words = Callable[[list[bytes], list[bytes]], list[bytes]]


@dataclass(frozen=True, slots=True)
class Script:
    """What one script does, in our own words, and the command that does it."""

    summary: str
    command: str
    words: Words  # of the command, without its name
    keys: int | None  # None: any number
    arguments: int
    convert: Callable[[Reply], Reply] | None = None
    # Which argument names a database to work in, as SELECT does in a script.
    database: int | None = None


def as_integer(reply: Reply) -> Reply:
    """Of a script that turns success into 1 and anything else into 0."""
    return int(reply == OK) if reply in (OK, None) else reply


CLAIM = Script(
    "claim a piece of work, or read its result", "GOBLIN.CLAIM",
    lambda keys, argv: [*keys, *argv], keys=2, arguments=2,
)  # fmt: skip
DELETE = Script(
    "delete the key if it holds the token: 1, else 0", "GOBLIN.CAD",
    lambda keys, argv: [keys[0], argv[0]], keys=1, arguments=1,
)  # fmt: skip
DELETE_OR_MISSING = Script(
    "the same, and -1 when there is no such key", "LOCK.RELEASE1",
    lambda keys, argv: [keys[0], argv[0]], keys=1, arguments=1,
)  # fmt: skip
RENEW = Script(
    "give the key a time to live, in milliseconds, if it holds the token: 1, else 0", "LOCK.RENEW",
    lambda keys, argv: [keys[0], *argv[:2]], keys=1, arguments=2,
)  # fmt: skip
RENEW_SECONDS = Script(
    "the same, in seconds", "LOCK.RENEWS",
    lambda keys, argv: [keys[0], *argv[:2]], keys=1, arguments=2,
)  # fmt: skip
PROLONG = Script(
    "the same in milliseconds if it has a time to live; with 0 as a third argument, add to that",
    "LOCK.PROLONG", lambda keys, argv: [keys[0], *argv[:3]], keys=1, arguments=3,
)  # fmt: skip
SET_IF_FREE = Script(
    "set the key if it does not exist, for milliseconds: OK, else nil", "SET",
    lambda keys, argv: [keys[0], argv[0], b"NX", b"PX", argv[1]], keys=1, arguments=2,
)  # fmt: skip
SET_IF_FREE_SECONDS = Script(
    "the same, for seconds", "SET",
    lambda keys, argv: [keys[0], argv[0], b"NX", b"EX", argv[1]], keys=1, arguments=2,
)  # fmt: skip
TAKE_IF_FREE = Script(
    "set the key if it does not exist, for milliseconds: 1, else 0", "SET",
    SET_IF_FREE.words, keys=1, arguments=2, convert=as_integer,
)  # fmt: skip
TAKE_IF_FREE_SECONDS = Script(
    "the same, for seconds", "SET",
    SET_IF_FREE_SECONDS.words, keys=1, arguments=2, convert=as_integer,
)  # fmt: skip
ACQUIRE_ALL = Script(
    "set all keys, for milliseconds, if none of them exists: how many, else 0", "LOCK.ACQUIRE",
    lambda keys, argv: [*argv[:2], *keys], keys=None, arguments=2,
)  # fmt: skip
EXTEND_ALL = Script(
    "set all keys anew, for milliseconds, if all hold the token: how many, else 0", "LOCK.EXTEND",
    lambda keys, argv: [*argv[:2], *keys], keys=None, arguments=2,
)  # fmt: skip
RELEASE_ALL = Script(
    "delete those of the keys that hold the token: how many", "LOCK.RELEASE",
    lambda keys, argv: [argv[0], *keys], keys=None, arguments=1,
)  # fmt: skip
ACQUIRE_ALL_IN = Script(
    "the first of these three, in the database that the first argument names", "LOCK.ACQUIRE",
    lambda keys, argv: [*argv[1:3], *keys], keys=None, arguments=3, database=0,
)  # fmt: skip
EXTEND_ALL_IN = Script(
    "the second, likewise", "LOCK.EXTEND",
    lambda keys, argv: [*argv[1:3], *keys], keys=None, arguments=3, database=0,
)  # fmt: skip
RELEASE_ALL_IN = Script(
    "the third, likewise", "LOCK.RELEASE",
    lambda keys, argv: [argv[1], *keys], keys=None, arguments=2, database=0,
)  # fmt: skip
COUNT = Script(
    "add to the number in the key", "INCRBY",
    lambda keys, argv: [keys[0], argv[0]], keys=1, arguments=1,
)  # fmt: skip
COUNT_EXISTING = Script(
    "the same if the key exists, else nil", "LOCK.COUNT",
    lambda keys, argv: [keys[0], argv[0]], keys=1, arguments=1,
)  # fmt: skip

# By the SHA1 of the normal form; several scripts mean the same.
FORMS = {
    "ae1c755c1a183b49735d59d3faed89ea729657a1": CLAIM,
    "2d0b1494f2dce1254688f97c1c8daebf37f35077": CLAIM,
    "afd2fb6b6447e9045285fbd50cc84e724cb9d093": DELETE,
    "005a2d211705dc7b1866ada631b98666fb00dcdc": DELETE,
    "322d0816f752f592915d163f0906af3d7cfcad04": DELETE,
    "9bb455507f577d5732837a222d54810e186039d4": DELETE,
    "0c810f65ad074cf59c952a655ace5ff4d34b7f6a": DELETE_OR_MISSING,
    "dd0ab0925c25bee271fee811f06f50189c4999c0": RENEW,
    "082108eb19de4cceb632ff0a5992f93f9c20b37d": RENEW,
    "e1fb6d7464c2aeffa76da77efdba226e005d62ca": RENEW,
    "5e7021b22f9625caf7d6f3fc496b2a2294d3a077": RENEW,
    "ef56e66f73bf3f289ef4a44948f8719d72ecb051": RENEW,
    "e066c29571457d490ee6799982d45a8e9c495285": RENEW_SECONDS,
    "2deb23ed641e464769d060cdaf93016acd34d236": RENEW_SECONDS,
    "583e63ad36ecdcc0fee7ecd443fe454c2b74f645": PROLONG,
    "1f4fc8e3e73a399a04d0e02cd3e7ea93dc92c840": SET_IF_FREE,
    "bbe737762372b3d2b5ade578836f024c6412023e": SET_IF_FREE,
    "fd65645554415fe4c727a161288b0d426a57b878": SET_IF_FREE_SECONDS,
    "3a3c1e6763264666758b10912dece1bdc6c158fc": SET_IF_FREE_SECONDS,
    "3bb54dc90f1004dc8c6f5ea09513b138849f8cec": TAKE_IF_FREE,
    "82750295f2ac4e9a9353c4bbc90499b73bd3e293": TAKE_IF_FREE_SECONDS,
    "ba832946bba281636117c419173a0a18869940d1": ACQUIRE_ALL,
    "edaf40bba63dc963db9b011986afb2dc2e45e427": EXTEND_ALL,
    "f1af5a77183dbea1e96b3317b81915bbe1cddf41": RELEASE_ALL,
    "b85983306228542e6acd6ed524043e5581d9eb42": ACQUIRE_ALL_IN,
    "341de3c33811143853991b129988aa1c7efc41e0": EXTEND_ALL_IN,
    "0f236af00bdba17871541f3fd7983b38d6d770ef": RELEASE_ALL_IN,
    "79d5e0e8b55197c9609e386648162577d72f98c4": COUNT,
    "29e18d063e18d0267f372f6ca01213f441631174": COUNT_EXISTING,
}

# By the SHA1 of the text, as these send it.
TEXTS = {
    # redis-py 5 to 8 and valkey-py 6, Lock, also asyncio
    "c3f8721cbb97f72bc19e972846bd7aaf91901658": DELETE,
    "a4e8783852e6b949f9ef3a97212805108459a890": PROLONG,
    "1cac51482acf5858da00f6d685d68f886cd6b6b2": RENEW,
    # node-redlock 3 (npm: redlock)
    "862f31bf38e9b63ce28d6e9e5143551bb34ef981": SET_IF_FREE,
    "cf0e94b2e9ffc7e04395cf88f7583fc309985910": DELETE,
    "a7aba3bc5d6e99b3003da8b9d80a63b9f4092ecf": RENEW,
    # node-redlock 4
    "e5a322e2634ef59a516e8ea150cb085afafee684": ACQUIRE_ALL,
    "0f0f23b9048b36752b5be114f357ba083449f908": RELEASE_ALL,
    "ce46f80993d5dac20dd066eb301a4e37994bdbed": EXTEND_ALL,
    # node-redlock 5
    "96da70f7716f27d278a5218544df37fd8b0a5e4c": ACQUIRE_ALL,
    "aed6f382e410db8ba7926d4e5e9aab410bf2a78a": EXTEND_ALL,
    "e4612211c9f8f51c257e26e056b0a654b3187242": RELEASE_ALL,
    # @sesamecare-oss/redlock 1
    "1b77b94aa78451d55dfa97e18819bfbfc596cb5b": ACQUIRE_ALL_IN,
    "820e9778d2b6733e9ed771e4be90ae73a95a6f3b": EXTEND_ALL_IN,
    "df51f6837dcfe303d334e6abea9aeae192bab216": RELEASE_ALL_IN,
    # redis-semaphore 5, Mutex
    "7157921a7cc7cfba979acf6d63f073151df17d12": DELETE,
    "594683e49a64ebaf975caf5f8079a1d097c438f1": RENEW,
    # pottery 3, Redlock
    "a4aada0b36710970eedaaaeec4a6b7d8c78c4f80": DELETE,
    "ba015a80261b616e7a62d35df0b8e3edbe6c9414": RENEW,
    # redis-lock-py 1, RedisSpinLock
    "e63c1bdcff89893c1242d737ef2971b3f2f9ea96": DELETE,
    # the claim idiom, without and with a line end
    "4c3acd84d714ceae8d91df8b79a0b863356cde9e": CLAIM,
    "f6f81932409f758476b90894c77313fb310756d0": CLAIM,
}
