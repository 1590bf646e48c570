"""Commands about the client's own connection; answered by the node itself, always at once."""

from __future__ import annotations

from goblin_raft import errors, errors_node
from goblin_raft.arguments import integer, optional, repeated, string
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.node_view import NodeView
from goblin_raft.readers import read_integer
from goblin_raft.reply import OK, PONG, Map, Reply, Status
from goblin_raft.spec import Family
from goblin_raft.users import DEFAULT_USER

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
    """Make the connection as new: database 0, RESP2, no name, not logged in."""
    session = node.session
    session.db, session.protocol, session.name, session.readonly = 0, 2, b"", False
    session.user = None if node.users.required else DEFAULT_USER.encode()
    session.transaction, session.watch = None, None
    session.subscriber.leave()
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


@family.node("AUTH", repeated(string("word")))
def auth(node: NodeView, words: list[bytes]) -> Reply:
    """Say who you are, as a user of the setting `users`.

    AUTH [username] password
    """
    if len(words) > 2:
        return errors.SYNTAX_ERROR.failure()
    if len(words) == 1 and not node.users.required:
        return errors_node.NO_PASSWORD_SET.failure()
    name, password = (DEFAULT_USER.encode(), *words)[-2:]
    if not node.users.admits(name, password):
        return errors_node.WRONGPASS.failure()
    node.session.user = name
    return OK


@family.node("HELLO", repeated(string("option"), least=0))
def hello(node: NodeView, words: list[bytes]) -> Reply:
    """Choose the protocol, 2 or 3, and tell about this server.

    HELLO [2 | 3 [AUTH username password] [SETNAME name]]
    """
    session = node.session
    protocol, name, user = session.protocol, session.name, session.user
    if words:
        try:
            protocol = read_integer(words[0], Limits(), "hello")
        except StoreError:
            return errors_node.BAD_PROTOCOL_VERSION.failure()
        if protocol not in (2, 3):
            return errors_node.NOPROTO.failure()
    rest = words[1:]
    while rest:
        option, rest = rest[0].upper(), rest[1:]
        if option == b"SETNAME" and rest:
            name, rest = rest[0], rest[1:]
            check_printable("Client names", name)
        elif option == b"AUTH" and len(rest) >= 2:
            if not node.users.admits(rest[0], rest[1]):
                return errors_node.WRONGPASS.failure()
            user, rest = rest[0], rest[2:]
        else:
            return errors_node.BAD_HELLO_OPTION.failure(option=errors.quoted(option))
    if user is None:
        return errors_node.NOAUTH_HELLO.failure()
    session.protocol, session.name, session.user = protocol, name, user
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


def check_printable(what: str, word: bytes) -> None:
    """Names stand in CLIENT LIST, where blanks and line ends separate. Raises StoreError."""
    if any(not 33 <= char <= 126 for char in word):
        raise errors_node.BAD_CLIENT_NAME.refusal(what=what)
