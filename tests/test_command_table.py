"""Every command of the table, in every shape: what is derived, tested by deriving it again."""

from __future__ import annotations

import msgpack
import pytest

from goblin_raft.arguments import Argument, Choice, Option, Optional, Options, Repeated
from goblin_raft.commands import TABLE, lookup
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.reply import Failure, Map, Reply, Status
from goblin_raft.spec import Command, Verb

COMMANDS = sorted(TABLE.values(), key=lambda command: command.name)
DATA = [command for command in COMMANDS if command.is_data]
READS = [command for command in DATA if command.verb is Verb.READ]
# Those that have subcommands are reached by one word alone, if at all.
PLAIN = [command for command in COMMANDS if not command.subcommands]
LIMITS = Limits()

# Facts about Redis 7.0, typed by hand: what its COMMAND says.
ARITIES_OF_REDIS = {
    "ACL": -2, "ACL CAT": -2, "ACL HELP": 2, "ACL LIST": 2, "ACL USERS": 2, "ACL WHOAMI": 2,
    "AUTH": -2, "BGSAVE": -1, "CLIENT": -2, "CLIENT CACHING": 3, "CLIENT GETNAME": 2,
    "CLIENT GETREDIR": 2, "CLIENT HELP": 2, "CLIENT ID": 2, "CLIENT INFO": 2, "CLIENT KILL": -3,
    "CLIENT LIST": -2, "CLIENT NO-EVICT": 3, "CLIENT REPLY": 3, "CLIENT SETNAME": 3,
    "CLIENT TRACKING": -3, "CLIENT TRACKINGINFO": 2, "CLIENT UNBLOCK": -3, "CLUSTER": -2,
    "COMMAND": -1, "COMMAND COUNT": 2, "COMMAND DOCS": -2, "COMMAND HELP": 2,
    "COMMAND INFO": -2, "COMMAND LIST": -2, "CONFIG": -2, "CONFIG GET": -3, "CONFIG HELP": 2,
    "CONFIG RESETSTAT": 2, "CONFIG REWRITE": 2, "CONFIG SET": -4, "DBSIZE": 1, "DEBUG": -2,
    "DEL": -2, "ECHO": 2, "EXISTS": -2, "EXPIRE": -3, "FLUSHALL": -1, "FLUSHDB": -1, "GET": 2,
    "HELLO": -1, "HGET": 3, "HSET": -4, "INFO": -1, "LASTSAVE": 1, "LATENCY": -2,
    "LATENCY DOCTOR": 2, "LATENCY GRAPH": 3, "LATENCY HELP": 2, "LATENCY HISTOGRAM": -2,
    "LATENCY HISTORY": 3, "LATENCY LATEST": 2, "LATENCY RESET": -2, "MODULE": -2, "MODULE HELP": 2,
    "MODULE LIST": 2, "PERSIST": 2, "PEXPIRE": -3, "PING": -1, "PTTL": 2, "QUIT": -1, "READONLY": 1,
    "READWRITE": 1, "RESET": 1, "ROLE": 1, "SELECT": 2, "SET": -3, "SLOWLOG": -2, "SLOWLOG GET": -2,
    "SLOWLOG HELP": 2, "SLOWLOG LEN": 2, "SLOWLOG RESET": 2, "TIME": 1, "TTL": 2, "TYPE": 2,
    "WAIT": 3, "ZADD": -4, "ZSCORE": 3,
    "DISCARD": 1, "EXEC": 1, "MULTI": 1, "UNWATCH": 1, "WATCH": -2,
}  # fmt: skip
# (first key, last key, step)
KEYS_OF_REDIS = {
    "DBSIZE": (0, 0, 0), "DEL": (1, -1, 1), "EXISTS": (1, -1, 1), "EXPIRE": (1, 1, 1),
    "FLUSHALL": (0, 0, 0), "GET": (1, 1, 1), "HGET": (1, 1, 1), "HSET": (1, 1, 1),
    "PERSIST": (1, 1, 1), "PEXPIRE": (1, 1, 1), "PTTL": (1, 1, 1), "SET": (1, 1, 1),
    "TTL": (1, 1, 1), "TYPE": (1, 1, 1), "WATCH": (1, -1, 1), "ZADD": (1, 1, 1),
    "ZSCORE": (1, 1, 1),
}  # fmt: skip


def named(command: Command) -> str:
    return command.name


def word_for(argument: Argument, number: int) -> bytes:
    """A word that this argument accepts."""
    return b"7" if argument.kind in ("integer", "double", "unix-time") else b"word-%d" % number


def request(command: Command, *, groups: int | None = None) -> list[bytes]:
    """The shortest request, or one with so many groups at its end."""
    words = command.name.encode().split()
    for part in command.parts:
        if isinstance(part, Argument):
            words.append(word_for(part, len(words)))
        elif isinstance(part, Repeated):
            for _ in range(part.least if groups is None else groups):
                words += [word_for(member, len(words)) for member in part.members]
    return words


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
    assert len(found) == (3 if repeated else len(kinds))
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
    assert not isinstance(node.call(*argv), Failure)
    for setup in ([], [b"SET", argv[-1], b"v"], [b"HSET", b"word-1", b"f", b"v"]):
        node.call(b"FLUSHALL")
        if setup:
            node.call(*setup)
        reply = node.call(*argv)
        assert not isinstance(reply, Failure) or reply.code == "WRONGTYPE"
    assert node.machine.internal_errors == 0


@pytest.mark.parametrize(
    "command", [each for each in DATA if isinstance(each.tail, Options)], ids=named
)
def test_every_option_runs(command, node):
    for member in command.tail.members:
        for option in member.members if isinstance(member, Choice) else (member,):
            assert isinstance(option, Option)
            words = [option.token.encode()] + ([b"7"] if option.argument else [])
            assert not isinstance(node.call(*request(command), *words), Failure)
    assert node.machine.internal_errors == 0


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


@pytest.mark.parametrize("name", sorted(KEYS_OF_REDIS))
def test_standard_commands_have_their_keys_where_redis_has_them(name):
    assert TABLE[name.encode()].key_positions == KEYS_OF_REDIS[name]


def test_the_numbers_above_are_those_of_a_real_redis(redis):
    """The table of facts, checked where there is a redis-server."""
    for name, arity in ARITIES_OF_REDIS.items():
        shown = redis.ask(b"COMMAND", b"INFO", name.lower().replace(" ", "|").encode())
        assert f"2) (integer) {arity}\n" in shown, name


def test_no_command_of_redis_is_missing_from_the_facts():
    ours = {command.name for command in COMMANDS if not command.name.startswith("GOBLIN.")}
    newer_than_redis_7_0 = {"CLIENT SETINFO", "CLIENT NO-TOUCH", "WAITAOF"}
    newer_than_redis_7_0.add("COMMAND GETKEYS")  # there it needs one word more
    # DEBUG has subcommands in Redis, too, but its COMMAND does not list them.
    unlisted = {name for name in ours if name.startswith("DEBUG ")}
    assert ours - set(ARITIES_OF_REDIS) - newer_than_redis_7_0 == unlisted
