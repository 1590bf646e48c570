"""Every command of the table, in every shape: what is derived, tested by deriving it again."""

from __future__ import annotations

import msgpack
import pytest

from goblin_raft.arguments import Argument, Choice, Option, Optional, Repeated
from goblin_raft.commands import TABLE, lookup
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.reply import Failure, Map, Reply, Status
from goblin_raft.spec import Command, Verb
from goblin_raft.tails import NumberedKeys, OptionsFirst

COMMANDS = sorted(TABLE.values(), key=lambda command: command.name)
DATA = [command for command in COMMANDS if command.is_data]
READS = [command for command in DATA if command.verb is Verb.READ]
# Those that have subcommands are reached by one word alone, if at all.
PLAIN = [command for command in COMMANDS if not command.subcommands]
LIMITS = Limits()

# Facts about Redis 7.0, typed by hand: what its COMMAND says.
ARITIES_OF_REDIS = {
    "ACL": -2, "ACL CAT": -2, "ACL HELP": 2, "ACL LIST": 2, "ACL USERS": 2, "ACL WHOAMI": 2,
    "APPEND": 3, "AUTH": -2, "BGSAVE": -1, "CLIENT": -2, "CLIENT CACHING": 3, "CLIENT GETNAME": 2,
    "CLIENT GETREDIR": 2, "CLIENT HELP": 2, "CLIENT ID": 2, "CLIENT INFO": 2, "CLIENT KILL": -3,
    "CLIENT LIST": -2, "CLIENT NO-EVICT": 3, "CLIENT REPLY": 3, "CLIENT SETNAME": 3,
    "CLIENT TRACKING": -3, "CLIENT TRACKINGINFO": 2, "CLIENT UNBLOCK": -3, "CLUSTER": -2,
    "COMMAND": -1, "COMMAND COUNT": 2, "COMMAND DOCS": -2, "COMMAND HELP": 2, "COMMAND INFO": -2,
    "COMMAND LIST": -2, "CONFIG": -2, "CONFIG GET": -3, "CONFIG HELP": 2, "CONFIG RESETSTAT": 2,
    "CONFIG REWRITE": 2, "CONFIG SET": -4, "COPY": -3, "DBSIZE": 1, "DEBUG": -2, "DECR": 2,
    "DECRBY": 3, "DEL": -2, "DISCARD": 1, "ECHO": 2, "EXEC": 1, "EXISTS": -2, "EXPIRE": -3,
    "EXPIREAT": -3, "EXPIRETIME": 2, "FLUSHALL": -1, "FLUSHDB": -1, "GET": 2, "GETDEL": 2,
    "GETEX": -2, "GETRANGE": 4, "GETSET": 3, "HDEL": -3, "HELLO": -1, "HEXISTS": 3, "HGET": 3,
    "HGETALL": 2, "HINCRBY": 4, "HINCRBYFLOAT": 4, "HKEYS": 2, "HLEN": 2, "HMGET": -3, "HMSET": -4,
    "HRANDFIELD": -2, "HSCAN": -3, "HSET": -4, "HSETNX": 4, "HSTRLEN": 3, "HVALS": 2, "INCR": 2,
    "INCRBY": 3, "INCRBYFLOAT": 3, "INFO": -1, "KEYS": 2, "LASTSAVE": 1, "LATENCY": -2,
    "LATENCY DOCTOR": 2, "LATENCY GRAPH": 3, "LATENCY HELP": 2, "LATENCY HISTOGRAM": -2,
    "LATENCY HISTORY": 3, "LATENCY LATEST": 2, "LATENCY RESET": -2, "MEMORY": -2,
    "MEMORY USAGE": -3, "MGET": -2, "MODULE": -2, "MODULE HELP": 2, "MODULE LIST": 2, "MOVE": 3,
    "MSET": -3, "MSETNX": -3, "MULTI": 1, "OBJECT": -2, "OBJECT ENCODING": 3, "OBJECT FREQ": 3,
    "OBJECT HELP": 2, "OBJECT IDLETIME": 3, "OBJECT REFCOUNT": 3, "PERSIST": 2, "PEXPIRE": -3,
    "PEXPIREAT": -3, "PEXPIRETIME": 2, "PING": -1, "PSETEX": 4, "PTTL": 2, "QUIT": -1,
    "RANDOMKEY": 1, "READONLY": 1, "READWRITE": 1, "RENAME": 3, "RENAMENX": 3, "RESET": 1,
    "ROLE": 1, "SCAN": -2, "SELECT": 2, "SET": -3, "SETEX": 4, "SETNX": 3, "SETRANGE": 4,
    "SLOWLOG": -2, "SLOWLOG GET": -2, "SLOWLOG HELP": 2, "SLOWLOG LEN": 2, "SLOWLOG RESET": 2,
    "STRLEN": 2, "SUBSTR": 4, "SWAPDB": 3, "TIME": 1, "TOUCH": -2, "TTL": 2, "TYPE": 2,
    "UNLINK": -2, "UNWATCH": 1, "WAIT": 3, "WATCH": -2, "ZADD": -4, "ZCARD": 2, "ZCOUNT": 4,
    "ZDIFF": -3, "ZDIFFSTORE": -4, "ZINCRBY": 4, "ZINTER": -3, "ZINTERCARD": -3, "ZINTERSTORE": -4,
    "ZLEXCOUNT": 4, "ZMSCORE": -3, "ZPOPMAX": -2, "ZPOPMIN": -2, "ZRANDMEMBER": -2, "ZRANGE": -4,
    "ZRANGEBYLEX": -4, "ZRANGEBYSCORE": -4, "ZRANGESTORE": -5, "ZRANK": 3, "ZREM": -3,
    "ZREMRANGEBYLEX": 4, "ZREMRANGEBYRANK": 4, "ZREMRANGEBYSCORE": 4, "ZREVRANGE": -4,
    "ZREVRANGEBYLEX": -4, "ZREVRANGEBYSCORE": -4, "ZREVRANK": 3, "ZSCAN": -3, "ZSCORE": 3,
    "ZUNION": -3, "ZUNIONSTORE": -4,
    "EVAL": -3, "EVALSHA": -3, "EVALSHA_RO": -3, "EVAL_RO": -3, "SCRIPT": -2, "SCRIPT EXISTS": -3,
    "SCRIPT FLUSH": -2, "SCRIPT HELP": 2, "SCRIPT LOAD": 3,
    "PSUBSCRIBE": -2, "PUBLISH": 3, "PUBSUB": -2, "PUBSUB CHANNELS": -2, "PUBSUB HELP": 2,
    "PUBSUB NUMPAT": 2, "PUBSUB NUMSUB": -2, "PUNSUBSCRIBE": -1, "SUBSCRIBE": -2,
    "UNSUBSCRIBE": -1,
}  # fmt: skip
# (first key, last key, step), where it is not the one word after the name.
ONE_KEY = (1, 1, 1)
KEYS_OF_REDIS = {
    "COPY": (1, 2, 1), "DBSIZE": (0, 0, 0), "DEL": (1, -1, 1), "EXISTS": (1, -1, 1),
    "FLUSHALL": (0, 0, 0), "FLUSHDB": (0, 0, 0), "KEYS": (0, 0, 0), "MEMORY USAGE": (2, 2, 1),
    "MGET": (1, -1, 1), "MSET": (1, -1, 2), "MSETNX": (1, -1, 2), "OBJECT ENCODING": (2, 2, 1),
    "OBJECT FREQ": (2, 2, 1), "OBJECT IDLETIME": (2, 2, 1), "OBJECT REFCOUNT": (2, 2, 1),
    "RANDOMKEY": (0, 0, 0), "RENAME": (1, 2, 1), "RENAMENX": (1, 2, 1), "SCAN": (0, 0, 0),
    "SWAPDB": (0, 0, 0), "TOUCH": (1, -1, 1), "UNLINK": (1, -1, 1), "ZDIFF": (0, 0, 0),
    "PUBLISH": (0, 0, 0), "WATCH": (1, -1, 1), "ZINTER": (0, 0, 0), "ZINTERCARD": (0, 0, 0),
    "ZRANGESTORE": (1, 2, 1), "ZUNION": (0, 0, 0),
}  # fmt: skip
# Those that no declaration can say: a word for each kind of argument that must have a form.
WORDS = {"integer": b"7", "double": b"7", "unix-time": b"7", "start": b"7", "stop": b"7"}
WORDS_OF_COMMANDS = {
    ("ZRANGESTORE", "min"): b"7",
    ("ZRANGESTORE", "max"): b"7",
    **{
        (name, end): b"[7"
        for name in ("ZRANGEBYLEX", "ZREVRANGEBYLEX", "ZLEXCOUNT", "ZREMRANGEBYLEX")
        for end in ("min", "max")
    },
}
# What these say to keys that do not exist, and to any options alone.
FAIL_WITHOUT_KEYS = {"RENAME", "RENAMENX"}
FAIL_ON_TEXT = {"DECR", "GOBLIN.DECRPOS", "INCR", "OBJECT FREQ", "OBJECT IDLETIME"}
NOT_ALONE = {("ZRANGE", "LIMIT"), ("ZRANGESTORE", "LIMIT"), ("ZRANGE", "BYLEX")} | {
    ("ZRANGESTORE", "BYLEX")
}


def named(command: Command) -> str:
    return command.name


def word_for(command: Command, argument: Argument, number: int) -> bytes:
    """A word that this argument accepts."""
    named = WORDS_OF_COMMANDS.get((command.name, argument.name)) or WORDS.get(argument.name)
    return named or WORDS.get(argument.kind) or b"word-%d" % number


def request(command: Command, *, groups: int | None = None) -> list[bytes]:
    """The shortest request, or one with so many groups at its end."""
    words = command.name.encode().split()
    for part in command.parts:
        if isinstance(part, Argument):
            words.append(word_for(command, part, len(words)))
        elif isinstance(part, OptionsFirst | Repeated):
            repeated = part.groups if isinstance(part, OptionsFirst) else part
            for _ in range(repeated.least if groups is None else groups):
                words += [word_for(command, each, len(words)) for each in repeated.members]
        elif isinstance(part, NumberedKeys):
            words += [b"1", b"word-%d" % len(words)]
    return words


def options_of(command: Command) -> list[Option]:
    """All that may stand behind the shortest request."""
    tail = command.tail
    members = getattr(getattr(tail, "options", tail), "members", ())
    flat: list[Option] = []
    if not isinstance(tail, Repeated | OptionsFirst):
        for member in members:
            flat += member.members if isinstance(member, Choice) else [member]
    return flat


def refusal(argv: list[bytes]) -> str | None:
    try:
        lookup(argv).decode(argv, LIMITS)
    except StoreError as error:
        return error.reply.text
    return None


def arity_error(command: Command) -> str:
    return f"ERR wrong number of arguments for '{command.full_name}' command"


@pytest.mark.parametrize("command", PLAIN, ids=named)
def test_the_fewest_words_are_enough(command):
    argv = request(command)
    assert refusal(argv) is None
    assert abs(command.arity) == len(argv)


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if each.words_min > each.words_of_name], ids=named
)
def test_one_word_too_few_is_refused(command):
    assert refusal(request(command)[:-1]) == arity_error(command)


@pytest.mark.parametrize("command", [each for each in PLAIN if each.tail is None], ids=named)
def test_one_word_too_many_is_refused(command):
    optional = sum(isinstance(part, Optional) for part in command.parts)
    assert refusal(request(command) + [b"word"] * (optional + 1)) == arity_error(command)


@pytest.mark.parametrize(
    "command",
    [each for each in COMMANDS if isinstance(each.tail, Repeated) and len(each.tail.members) > 1],
    ids=named,
)
def test_half_a_group_is_refused(command):
    assert refusal([*request(command, groups=2), b"7"]) in (
        arity_error(command),
        "ERR syntax error",
    )


@pytest.mark.parametrize("command", PLAIN, ids=named)
def test_the_name_is_read_in_any_case(command):
    words = request(command)
    own = command.words_of_name
    lower = [word.lower() for word in words[:own]] + words[own:]
    assert lookup(lower) is command


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_keys_lie_where_command_says(command):
    argv = request(command, groups=3)
    first, last, step = command.key_positions
    found = argv[first : (last % len(argv)) + 1 : step] if first else []
    kinds = [part for part in command.parts if isinstance(part, Argument) and part.is_key]
    tail = command.tail
    repeated = isinstance(tail, Repeated) and tail.members[0].is_key
    expected = 3 if repeated else len(kinds)
    if isinstance(tail, Repeated) and repeated and len(tail.members) > 1:
        found = found[:expected]
    assert len(found) == expected
    assert all(word.startswith(b"word") for word in found)


@pytest.mark.parametrize("command", DATA, ids=named)
def test_arguments_survive_the_log_and_have_one_width(command):
    for groups in (1, 2, 3):
        decoded = command.decode(request(command, groups=groups), LIMITS)
        assert msgpack.unpackb(msgpack.packb(decoded)) == decoded
        assert len(decoded) == command.width


@pytest.mark.parametrize("command", DATA, ids=named)
def test_it_runs_on_an_empty_database_and_on_every_type(command, node):
    argv = request(command)
    assert not isinstance(node.call(*argv), Failure) or command.name in FAIL_WITHOUT_KEYS
    for setup in ([], [b"SET", argv[-1], b"v"], [b"HSET", b"word-1", b"f", b"v"]):
        node.call(b"FLUSHALL")
        if setup:
            node.call(*setup)
        reply = node.call(*argv)
        fails = isinstance(reply, Failure) and command.name not in FAIL_WITHOUT_KEYS | FAIL_ON_TEXT
        assert not fails or reply.code == "WRONGTYPE"
    assert node.machine.internal_errors == 0


@pytest.mark.parametrize("command", [each for each in DATA if options_of(each)], ids=named)
def test_every_option_runs(command, node):
    for option in options_of(command):
        if (command.name, option.token) in NOT_ALONE:
            continue
        words = [b"7"] * sum(isinstance(part, Optional) for part in command.parts)
        words += [option.token.encode(), *(option_word(each) for each in option.arguments)]
        assert not isinstance(node.call(*request(command), *words), Failure), words
    assert node.machine.internal_errors == 0


def option_word(argument: Argument) -> bytes:
    if argument.name.endswith("digest"):
        return b"0123456789abcdef"
    return b"SUM" if argument.name == "aggregate" else b"7"


@pytest.mark.parametrize("command", READS, ids=named)
def test_a_read_leaves_the_state_as_it_was(command, node):
    node.call(b"SET", b"word-1", b"v", b"PX", b"100")
    node.pass_time(100)  # over, and not removed: the read must not remove it either
    argv = request(command)
    before = node.machine.state()
    arguments = command.decode(argv, LIMITS)
    node.machine.read([command.name, 0, *arguments], node.engine.cluster_now_ms())
    assert node.machine.state() == before


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_what_command_docs_needs(command):
    items = command.docs().items
    assert all(items[name] for name in (b"summary", b"since", b"group"))
    assert not command.summary.endswith(".")
    assert len(command.summary) <= 100
    check_docs(items)


def check_docs(items: dict[bytes, Reply]) -> None:
    """redis-cli asserts these forms and dies of others."""
    for name, value in items.items():
        if name == b"flags":
            assert all(isinstance(flag, Status) for flag in value)
        elif name == b"arguments":
            assert value
            for each in value:
                assert isinstance(each, Map)
                assert {b"name", b"type"} <= set(each.items)
                check_docs(each.items)
        elif name == b"subcommands":
            assert isinstance(value, Map)
        else:
            assert isinstance(value, bytes) or (name == b"key_spec_index" and value == 0)


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_the_row_has_the_form_of_redis_7(command):
    row = command.row()
    assert len(row) == 10
    assert row[0] == command.full_name.encode()
    assert row[1] == command.arity
    flags = {flag.text for flag in row[2].items}
    assert (b"write" in flags) == (command.verb is Verb.WRITE)
    assert (b"readonly" in flags) == (command.verb is Verb.READ)


@pytest.mark.parametrize("name", sorted(ARITIES_OF_REDIS))
def test_standard_commands_have_the_arity_of_redis(name):
    assert TABLE[name.encode()].arity == ARITIES_OF_REDIS[name]


@pytest.mark.parametrize("name", sorted({each.name for each in DATA} & set(ARITIES_OF_REDIS)))
def test_standard_commands_have_their_keys_where_redis_has_them(name):
    assert TABLE[name.encode()].key_positions == KEYS_OF_REDIS.get(name, ONE_KEY)


def test_the_numbers_above_are_those_of_a_real_redis(redis):
    """The table of facts, checked where there is a redis-server."""
    for name, arity in ARITIES_OF_REDIS.items():
        shown = redis.ask(b"COMMAND", b"INFO", name.lower().replace(" ", "|").encode())
        assert f"2) (integer) {arity}\n" in shown, name
        if name in {each.name for each in DATA}:
            for place, number in enumerate(KEYS_OF_REDIS.get(name, ONE_KEY), 4):
                assert f" {place}) (integer) {number}\n" in shown, name


def test_no_command_of_redis_is_missing_from_the_facts():
    ours = {command.name for command in COMMANDS if not command.name.startswith("GOBLIN.")}
    newer_than_redis_7_0 = {"CLIENT SETINFO", "CLIENT NO-TOUCH", "WAITAOF"}
    newer_than_redis_7_0 |= {"DELEX", "DELIFEQ", "DIGEST"}
    newer_than_redis_7_0.add("COMMAND GETKEYS")  # there it needs one word more
    # DEBUG has subcommands in Redis, too, but its COMMAND does not list them.
    unlisted = {name for name in ours if name.startswith("DEBUG ")}
    assert ours - set(ARITIES_OF_REDIS) - newer_than_redis_7_0 == unlisted
