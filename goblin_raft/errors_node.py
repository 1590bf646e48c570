"""The errors of connection and server commands, which a node gives by itself; see errors.py."""

from __future__ import annotations

from goblin_raft.errors import Cause, row

NOAUTH = row(
    Cause.CONNECTION,
    "NOAUTH Authentication required.",
    "Send AUTH, or HELLO with AUTH, first. The setting `users` says who may.",
)
NOAUTH_HELLO = row(
    Cause.CONNECTION,
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
    "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
    "protocol version at the same time",
    "Give your client a user name and a password.",
)
WRONGPASS = row(
    Cause.CONNECTION,
    "WRONGPASS invalid username-password pair or user is disabled.",
    "Compare with the setting `users`. `AUTH PASSWORD` means the user `default`.",
)
NO_PASSWORD_SET = row(
    Cause.CONNECTION,
    "ERR AUTH <password> called without any password configured for the default user. Are you "
    "sure your configuration is correct?",
    "Configure no password in the client, or set `users` on the nodes.",
)
NOPROTO = row(
    Cause.CONNECTION, "NOPROTO unsupported protocol version", "Ask HELLO for protocol 2 or 3."
)
BAD_PROTOCOL_VERSION = row(
    Cause.CONNECTION,
    "ERR Protocol version is not an integer or out of range",
    "Ask HELLO for protocol 2 or 3.",
)
BAD_HELLO_OPTION = row(
    Cause.CONNECTION,
    "ERR Syntax error in HELLO option '{option}'",
    "HELLO takes AUTH with a name and a password, and SETNAME with a name.",
)
BAD_CLIENT_NAME = row(
    Cause.CONNECTION,
    "ERR {what} cannot contain spaces, newlines or special characters.",
    "Use printable ASCII without blanks.",
)
BAD_CLIENT_ATTRIBUTE = row(
    Cause.CONNECTION,
    "ERR Unrecognized option '{option}'",
    "CLIENT SETINFO knows LIB-NAME and LIB-VER.",
)
NO_SUCH_CLIENT = row(
    Cause.CONNECTION, "ERR No such client", "CLIENT LIST shows who is connected to this node."
)
NO_SUCH_USER = row(
    Cause.CONNECTION, "ERR No such user '{name}'", "The setting `users` has the names."
)
BAD_CLIENT_ID = row(
    Cause.CONNECTION, "ERR Invalid client ID", "A client ID is a whole number above zero."
)
BAD_CLIENT_ID_TO_KILL = row(
    Cause.CONNECTION,
    "ERR client-id should be greater than 0",
    "A client ID is a whole number above zero.",
)
UNKNOWN_CLIENT_TYPE = row(
    Cause.CONNECTION,
    "ERR Unknown client type '{name}'",
    "The types are normal, master, replica and pubsub.",
)
NO_TRACKING = row(
    Cause.CONNECTION,
    "ERR client side caching is not supported",
    "Switch it off in the client: no node tells clients what others have changed.",
)
NO_SILENCE = row(
    Cause.CONNECTION,
    "ERR every command is answered; CLIENT REPLY OFF and SKIP are not supported",
    "Read the replies: each says whether the command happened.",
)
CLUSTER_DISABLED = row(
    Cause.CONNECTION,
    "ERR This instance has cluster support disabled",
    "Use the client's standalone mode: every node takes every command.",
)
UNKNOWN_PARAMETER = row(
    Cause.CONNECTION,
    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'",
    "CONFIG GET * shows what there is.",
)
CONFIG_SET_FAILED = row(
    Cause.CONNECTION,
    "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}",
    "Most settings are fixed when a node starts: restart it with another value.",
)
NO_CONFIG_FILE = row(
    Cause.CONNECTION,
    "ERR The server is running without a config file",
    "Put the setting where the node is started.",
)
GETKEYS_OF_NOTHING = row(
    Cause.CONNECTION,
    "ERR Invalid command specified",
    "docs/commands.md lists what there is.",
)
GETKEYS_ARITY = row(
    Cause.CONNECTION,
    "ERR Invalid number of arguments specified for command",
    "Give the whole command, as it would be sent.",
)
GETKEYS_WITHOUT_KEYS = row(
    Cause.CONNECTION,
    "ERR The command has no key arguments",
    "Ask for a command with keys.",
)
UNKNOWN_CATEGORY = row(
    Cause.CONNECTION, "ERR Unknown category '{name}'", "ACL CAT lists the categories."
)
BAD_SLOWLOG_COUNT = row(
    Cause.CONNECTION,
    "ERR count should be greater than or equal to -1",
    "-1 stands for all entries.",
)
NO_LATENCY_SAMPLES = row(
    Cause.CONNECTION,
    "ERR No samples available for event '{name}'",
    "No events are sampled here: see SLOWLOG and INFO commandstats.",
)
BAD_TIMEOUT = row(
    Cause.CONNECTION, "ERR timeout is not an integer or out of range", "Give milliseconds."
)
SNAPSHOT_UNDER_WAY = row(
    Cause.CONNECTION,
    "ERR Background save already in progress",
    "Wait until INFO persistence has rdb_bgsave_in_progress:0.",
)
