"""The errors of transactions, scripts and subscriptions; rows of the table in errors.py."""

from __future__ import annotations

from goblin_raft.errors import Cause, row

NESTED_MULTI = row(
    Cause.REQUEST,
    "ERR MULTI calls can not be nested",
    "Send EXEC or DISCARD before the next MULTI.",
)
EXEC_WITHOUT_MULTI = row(Cause.REQUEST, "ERR EXEC without MULTI", "Send MULTI first.")
DISCARD_WITHOUT_MULTI = row(Cause.REQUEST, "ERR DISCARD without MULTI", "Send MULTI first.")
WATCH_INSIDE_MULTI = row(
    Cause.REQUEST, "ERR WATCH inside MULTI is not allowed", "Send WATCH before MULTI."
)
NOT_IN_MULTI = row(
    Cause.REQUEST,
    "ERR Command not allowed inside a transaction",
    "Send it before MULTI or after EXEC.",
)
UNKNOWN_SCRIPT = row(
    Cause.REQUEST,
    "ERR scripts are not supported, apart from well-known ones of locks and claims; this is none",
    "docs/scripts.md lists those that are recognised, and the commands that do the same.",
)
NO_SUCH_SCRIPT = row(
    Cause.REQUEST,
    "NOSCRIPT No matching script. Please use EVAL.",
    "Send the script as text: well-known ones are recognised, see docs/scripts.md.",
)
WRITE_IN_READ_ONLY_SCRIPT = row(
    Cause.REQUEST,
    "ERR Write commands are not allowed from read-only scripts.",
    "All scripts that are recognised write: use EVAL or EVALSHA.",
)
TOO_MANY_SCRIPT_KEYS = row(
    Cause.REQUEST,
    "ERR Number of keys can't be greater than number of args",
    "The number before the keys says how many of the words after it are keys.",
)
NEGATIVE_SCRIPT_KEYS = row(
    Cause.REQUEST,
    "ERR Number of keys can't be negative",
    "The number before the keys says how many of the words after it are keys.",
)
WRONG_SCRIPT_WORDS = row(
    Cause.REQUEST,
    "ERR this script needs {keys} keys and {words} other arguments",
    "It was recognised, and was not given what it reads: see docs/scripts.md.",
)
NOT_WHILE_SUBSCRIBED = row(
    Cause.REQUEST,
    "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "
    "allowed in this context",
    "Use another connection, or RESP3 (HELLO 3), where all commands are allowed.",
)
TRANSACTION_TOO_LONG = row(
    Cause.REQUEST,
    "ERR transaction is longer than {limit} bytes",
    "Make it smaller: a transaction lies in one log entry, whose size `entry_bytes_max` limits.",
)
WATCH_TOO_LONG = row(
    Cause.REQUEST,
    "ERR the watched keys are longer than {limit} bytes",
    "Watch fewer keys: they travel in the transaction's log entry.",
)
EXECABORT = row(
    Cause.REQUEST,
    "EXECABORT Transaction discarded because of previous errors.",
    "Nothing of it was executed. The errors were the answers to what should have been queued.",
)
EXECABORT_BECAUSE = row(
    Cause.REQUEST,
    "EXECABORT Transaction discarded because of: {reason}",
    "Nothing of it was executed. Send EXEC without arguments.",
)
