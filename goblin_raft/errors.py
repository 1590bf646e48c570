"""Every error that a client can see: its text, whether it is definite, and what to do about it.

One row an error. docs/errors.md is written from the rows, and prefixes are part of our interface,
so a text is changed here or nowhere. Which errors happen when is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from goblin_raft.reply import UNCERTAIN_CODE, Failure

# What an error line quotes of a request: enough to recognise it, too little to flood a log.
QUOTED_CHARS_MAX = 128


class Cause(Enum):
    """What an error is about; docs/errors.md has one section for each."""

    REQUEST = "The request"
    CONNECTION = "The connection"
    CLUSTER = "The cluster"


class StoreError(Exception):
    """A command is refused. Raised by decoders and handlers, and never seen outside of dispatch."""

    def __init__(self, reply: Failure) -> None:
        super().__init__(reply.text)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row: the text with its blanks, and the advice to whoever gets it."""

    text: str
    advice: str
    cause: Cause

    @property
    def code(self) -> str:
        """The first word, by which clients tell errors apart."""
        return self.text.partition(" ")[0]

    @property
    def definite(self) -> bool:
        """Whether the command certainly did not happen and never will."""
        return self.code != UNCERTAIN_CODE

    def failure(self, **words: str | int) -> Failure:
        """The reply, with the blanks of the text filled in."""
        return Failure(self.text.format(**words) if words else self.text)

    def refusal(self, **words: str | int) -> StoreError:
        """The same, to be raised."""
        return StoreError(self.failure(**words))


TABLE: list[ErrorCode] = []


def row(cause: Cause, text: str, advice: str) -> ErrorCode:
    """Declare an error."""
    error = ErrorCode(text, advice, cause)
    TABLE.append(error)
    return error


# ---- the request: refused before it reaches the log, or by what the key holds -------------------

UNKNOWN_COMMAND = row(
    Cause.REQUEST,
    "ERR unknown command '{name}', with args beginning with: {arguments}",
    "docs/commands.md lists what there is.",
)
UNKNOWN_SUBCOMMAND = row(
    Cause.REQUEST,
    "ERR unknown subcommand '{name}'. Try {command} HELP.",
    "docs/commands.md lists what there is.",
)
WRONG_ARITY = row(
    Cause.REQUEST,
    "ERR wrong number of arguments for '{name}' command",
    "Compare with the usage line in docs/commands.md.",
)
SYNTAX_ERROR = row(
    Cause.REQUEST, "ERR syntax error", "An option is unknown, lacks its value or excludes another."
)
NOT_AN_INTEGER = row(
    Cause.REQUEST,
    "ERR value is not an integer or out of range",
    "Give a 64-bit integer in plain digits: no sign `+`, no blanks, no leading zeros, no fraction.",
)
NOT_A_FLOAT = row(
    Cause.REQUEST, "ERR value is not a valid float", "Give a decimal number, `inf` or `-inf`."
)
WEIGHT_NOT_A_FLOAT = row(
    Cause.REQUEST, "ERR weight value is not a float", "Give a decimal number, `inf` or `-inf`."
)
HASH_NOT_AN_INTEGER = row(
    Cause.REQUEST,
    "ERR hash value is not an integer",
    "The field holds something else than a 64-bit integer in plain digits.",
)
HASH_NOT_A_FLOAT = row(
    Cause.REQUEST, "ERR hash value is not a float", "The field holds something else than a number."
)
OVERFLOW = row(
    Cause.REQUEST,
    "ERR increment or decrement would overflow",
    "The result would be no 64-bit integer; nothing was changed.",
)
DECREMENT_OVERFLOW = row(
    Cause.REQUEST, "ERR decrement would overflow", "The lowest 64-bit integer has no negative."
)
NOT_FINITE = row(
    Cause.REQUEST,
    "ERR increment would produce NaN or Infinity",
    "The result would be no number; nothing was changed.",
)
VALUE_NOT_FINITE = row(
    Cause.REQUEST, "ERR value is NaN or Infinity", "Give a number that is not infinite."
)
SCORE_NOT_A_NUMBER = row(
    Cause.REQUEST,
    "ERR resulting score is not a number (NaN)",
    "Infinities of both signs have no sum.",
)
NOT_POSITIVE = row(
    Cause.REQUEST, "ERR value is out of range, must be positive", "Give a count, from 0 on."
)
VALUE_OUT_OF_RANGE = row(
    Cause.REQUEST,
    "ERR value is out of range",
    "Of a negative count -100000 is the lowest.",
)
OFFSET_OUT_OF_RANGE = row(
    Cause.REQUEST, "ERR offset is out of range", "A string begins at offset 0."
)
STRING_TOO_LONG = row(
    Cause.REQUEST,
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    "The string would become longer than `value_bytes_max`; nothing was changed.",
)
NOT_A_DIGEST = row(
    Cause.REQUEST,
    "ERR digest must be exactly 16 hexadecimal characters",
    "Give what DIGEST has told of the value.",
)
NOT_A_RANGE = row(
    Cause.REQUEST,
    "ERR min or max is not a float",
    "Give a number, or `(` and a number to leave it out itself.",
)
NOT_A_NAME_RANGE = row(
    Cause.REQUEST,
    "ERR min or max not valid string range item",
    "Give `[name`, `(name` to leave it out itself, `-` or `+`.",
)
INVALID_CURSOR = row(
    Cause.REQUEST, "ERR invalid cursor", "Give 0, or what the last reply began with."
)
INVALID_EXPIRE_TIME = row(
    Cause.REQUEST,
    "ERR invalid expire time in '{name}' command",
    "Give a time above zero that a 64-bit number of milliseconds can hold.",
)
UNSUPPORTED_OPTION = row(Cause.REQUEST, "ERR Unsupported option {option}", "Use NX, XX, GT or LT.")
NX_WITH_OTHERS = row(
    Cause.REQUEST,
    "ERR NX and XX, GT or LT options at the same time are not compatible",
    "Use NX alone.",
)
GT_WITH_LT = row(
    Cause.REQUEST,
    "ERR GT and LT options at the same time are not compatible",
    "Use one of them.",
)
NX_WITH_XX = row(
    Cause.REQUEST,
    "ERR XX and NX options at the same time are not compatible",
    "Use one of them.",
)
SCORE_CONDITIONS = row(
    Cause.REQUEST,
    "ERR GT, LT, and/or NX options at the same time are not compatible",
    "Use one of them.",
)
ONE_INCREMENT = row(
    Cause.REQUEST,
    "ERR INCR option supports a single increment-element pair",
    "Send a command for each.",
)
NO_INPUT_KEY = row(
    Cause.REQUEST,
    "ERR at least 1 input key is needed for '{name}' command",
    "Give the number of keys, and the keys.",
)
LIMIT_WITHOUT_RANGE = row(
    Cause.REQUEST,
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
    "Ranks begin and end where you say.",
)
SCORES_WITH_BYLEX = row(
    Cause.REQUEST,
    "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
    "All scores of such a set are the same.",
)
LIMIT_NEGATIVE = row(Cause.REQUEST, "ERR LIMIT can't be negative", "0 stands for no limit.")
NO_SUCH_KEY = row(Cause.REQUEST, "ERR no such key", "The key does not exist, any more perhaps.")
SAME_OBJECT = row(
    Cause.REQUEST,
    "ERR source and destination objects are the same",
    "Give another key or another database.",
)
INVALID_FIRST_DB = row(
    Cause.REQUEST, "ERR invalid first DB index", "Databases are numbered from 0 to 15."
)
INVALID_SECOND_DB = row(
    Cause.REQUEST, "ERR invalid second DB index", "Databases are numbered from 0 to 15."
)
FREQUENCY_NOT_TRACKED = row(
    Cause.REQUEST,
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that"
    " when switching between policies at runtime LRU and LFU data will take some time to adjust.",
    "Nothing is ever evicted here, so nobody counts.",
)
IDLE_TIME_NOT_TRACKED = row(
    Cause.REQUEST,
    "ERR idle time is not tracked",
    "Nothing is ever evicted here, so nobody notes when a key was used.",
)
KEYS_MUST_DIFFER = row(
    Cause.REQUEST,
    "ERR claim key and result key must differ",
    "With one key for both, a second caller would read the first one's token as its result.",
)
KEY_TOO_LONG = row(
    Cause.REQUEST,
    "ERR key is longer than {limit} bytes",
    "Use a digest of what makes the key so long, or raise `key_bytes_max` on every node.",
)
VALUE_TOO_LONG = row(
    Cause.REQUEST,
    "ERR value is longer than {limit} bytes",
    "Store the data elsewhere and a reference here, or raise `value_bytes_max` on every node.",
)
COMMAND_TOO_LONG = row(
    Cause.REQUEST,
    "ERR command is longer than {limit} bytes",
    "Send it in parts: a command lies in one log entry, whose size `entry_bytes_max` limits.",
)
WRONG_TYPE = row(
    Cause.REQUEST,
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "Ask TYPE what the key holds.",
)
DB_OUT_OF_RANGE = row(
    Cause.REQUEST, "ERR DB index is out of range", "Databases are numbered from 0 to 15."
)
INTERNAL_ERROR = row(
    Cause.REQUEST,
    "ERR internal error",
    "This is a bug in goblin_raft: please report it with the node's log.",
)

# ---- the connection -----------------------------------------------------------------------------

PROTOCOL_ERROR = row(
    Cause.CONNECTION,
    "ERR Protocol error: {problem}",
    "What was sent is not the Redis protocol. The connection is closed after this line.",
)
MAX_CLIENTS = row(
    Cause.CONNECTION,
    "ERR max number of clients reached",
    "Use another node, fewer connections, or raise `maxclients`.",
)

# ---- the cluster --------------------------------------------------------------------------------

CLUSTERDOWN = row(
    Cause.CLUSTER,
    "CLUSTERDOWN no leader; the command was not executed, try again",
    "Send it again, to this node or another. It means that no majority could be reached in time, or"
    " that this node has just been started and still goes through its log.",
)
DISK_FAILED = row(
    Cause.CLUSTER,
    "CLUSTERDOWN the disk of this node does not take writes; the command was not executed",
    "Send it again to another node. INFO says in `raft_problem` what is wrong with the disk.",
)
TRYAGAIN = row(
    Cause.CLUSTER,
    "TRYAGAIN too much is waiting here; the command was not executed",
    "Send it again a little later, or to another node.",
)
UNCERTAIN = row(
    Cause.CLUSTER,
    "UNCERTAIN no outcome within the commit timeout; the command may or may not take effect",
    "Read before you decide: if the claim key holds your token, the claim is yours.",
)


def wrong_number_of_arguments(name: str) -> Failure:
    """`name` as COMMAND shows it, `command|docs` for two words; any case."""
    return WRONG_ARITY.failure(name=name.lower())


def invalid_expire_time(name: str) -> Failure:
    """A time that is not above zero, or too far away."""
    return INVALID_EXPIRE_TIME.failure(name=name.lower())


def unknown_command(argv: list[bytes]) -> Failure:
    """Quotes the name as it came and the beginning of its arguments, as Redis does."""
    arguments = ""
    for word in argv[1:]:
        if len(arguments) >= QUOTED_CHARS_MAX:
            break
        arguments += f"'{quoted(word, QUOTED_CHARS_MAX - len(arguments))}' "
    return UNKNOWN_COMMAND.failure(name=quoted(argv[0]), arguments=arguments)


def unknown_subcommand(argv: list[bytes]) -> Failure:
    """`argv[0]` has subcommands, and `argv[1]` is none of them."""
    return UNKNOWN_SUBCOMMAND.failure(name=quoted(argv[1]), command=quoted(argv[0]).upper())


def quoted(word: bytes, chars_max: int = QUOTED_CHARS_MAX) -> str:
    """A client's word inside an error line: shortened, and unable to end the line."""
    text = word[:chars_max].decode("utf-8", "backslashreplace")
    return text.replace("\r", " ").replace("\n", " ")
