"""Commands about the client's own connection; answered by the node itself, always at once."""

from __future__ import annotations

from goblin_raft import errors
from goblin_raft.arguments import integer, optional, repeated, string
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.node_view import NodeView
from goblin_raft.readers import read_integer
from goblin_raft.reply import OK, PONG, Failure, Map, Reply, Status
from goblin_raft.spec import Family

family = Family("connection")

# The Redis whose habits clients may expect; tools compare it (INFO's redis_version).
REDIS_VERSION = b"7.2.0"


@family.node("PING", optional(string("message")))
def ping(node: NodeView, message: bytes | None) -> Reply:
    """Answer PONG, or the given message."""
    return PONG if message is None else message


@family.node("ECHO", string("message"))
def echo(node: NodeView, message: bytes) -> Reply:
    """Answer the given message."""
    return message


@family.node("SELECT", integer("index"))
def select(node: NodeView, index: int) -> Reply:
    """Choose the database for what follows on this connection."""
    if not 0 <= index < Limits().databases:
        return errors.DB_OUT_OF_RANGE.failure()
    node.session.db = index
    return OK


@family.node("QUIT", repeated(string("ignored"), least=0))
def quit_(node: NodeView, ignored: list[bytes]) -> Reply:
    """Close the connection after the answer."""
    node.session.closing = True
    return OK


@family.node("RESET")
def reset(node: NodeView) -> Reply:
    """Make the connection as new: database 0, RESP2, no name."""
    session = node.session
    session.db, session.protocol, session.name, session.readonly = 0, 2, b"", False
    return Status(b"RESET")


@family.node("READONLY")
def readonly(node: NodeView) -> Reply:
    """Let this connection read this node's own state, which may be stale."""
    node.session.readonly = True
    return OK


@family.node("READWRITE")
def readwrite(node: NodeView) -> Reply:
    """Make this connection's reads see every acknowledged write again."""
    node.session.readonly = False
    return OK


@family.node("HELLO", repeated(string("option"), least=0))
def hello(node: NodeView, words: list[bytes]) -> Reply:
    """Choose the protocol, 2 or 3, and tell about this server.

    HELLO [2 | 3 [AUTH default password] [SETNAME name]]; there are no passwords yet.
    """
    session = node.session
    protocol, name = session.protocol, session.name
    if words:
        try:
            protocol = read_integer(words[0], Limits(), "hello")
        except StoreError:
            return Failure("ERR Protocol version is not an integer or out of range")
        if protocol not in (2, 3):
            return Failure("NOPROTO unsupported protocol version")
    rest = words[1:]
    while rest:
        option, rest = rest[0].upper(), rest[1:]
        if option == b"SETNAME" and rest:
            name, rest = rest[0], rest[1:]
        elif option == b"AUTH" and len(rest) >= 2:
            if rest[0] != b"default":
                return Failure("WRONGPASS invalid username-password pair or user is disabled.")
            rest = rest[2:]
        else:
            return Failure(f"ERR Syntax error in HELLO option '{errors.quoted(option)}'")
    session.protocol, session.name = protocol, name
    return Map(
        {
            b"server": b"redis",
            b"version": REDIS_VERSION,
            b"proto": protocol,
            b"id": session.id,
            b"mode": b"standalone",
            b"role": b"master",
            b"modules": [],
        }
    )


@family.node("CLIENT", string("subcommand"))
def client(node: NodeView, subcommand: bytes) -> Reply:
    """Tell or set things about this connection."""
    return errors.SYNTAX_ERROR.failure()  # dispatch looks for the second word first


@family.node("CLIENT ID")
def client_id(node: NodeView) -> Reply:
    """Tell this connection's number, never used twice by a node."""
    return node.session.id


@family.node("CLIENT GETNAME")
def client_getname(node: NodeView) -> Reply:
    """Tell the name that this connection gave itself, or nil."""
    return node.session.name or None


@family.node("CLIENT SETNAME", string("name"))
def client_setname(node: NodeView, name: bytes) -> Reply:
    """Give this connection a name, for people to find it by."""
    if any(not 33 <= char <= 126 for char in name):
        return Failure("ERR Client names cannot contain spaces, newlines or special characters.")
    node.session.name = name
    return OK


@family.node("CLIENT SETINFO", string("attribute"), string("value"))
def client_setinfo(node: NodeView, attribute: bytes, value: bytes) -> Reply:
    """Take note of the client library: LIB-NAME or LIB-VER."""
    match attribute.upper():
        case b"LIB-NAME":
            node.session.lib_name = value
        case b"LIB-VER":
            node.session.lib_ver = value
        case _:
            return Failure(f"ERR Unrecognized option '{errors.quoted(attribute)}'")
    return OK
