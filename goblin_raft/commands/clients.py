"""CLIENT: what a node knows of its connections; answered by the node itself, always at once."""

from __future__ import annotations

from collections.abc import Callable

from goblin_raft import errors, errors_node
from goblin_raft.arguments import repeated, string
from goblin_raft.commands.connection import check_printable
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.node_view import ClientStatus, NodeView
from goblin_raft.readers import read_integer
from goblin_raft.reply import OK, Map, Reply, Set, Verbatim
from goblin_raft.session import Session
from goblin_raft.spec import Family

family = Family("connection")

# Redis's; a node has clients of the first and the last kind.
TYPES = (b"NORMAL", b"MASTER", b"REPLICA", b"SLAVE", b"PUBSUB")

Matches = Callable[[ClientStatus], bool]

family.container("CLIENT", "Tell or set things about connections of this node.")


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
    check_printable("Client names", name)
    node.session.name = name
    return OK


@family.node("CLIENT SETINFO", string("attribute"), string("value"))
def client_setinfo(node: NodeView, attribute: bytes, value: bytes) -> Reply:
    """Take note of the client library: LIB-NAME or LIB-VER."""
    name = attribute.lower().decode("latin-1")
    if name not in ("lib-name", "lib-ver"):
        return errors_node.BAD_CLIENT_ATTRIBUTE.failure(option=errors.quoted(attribute))
    check_printable(name, value)
    if name == "lib-name":
        node.session.lib_name = value
    else:
        node.session.lib_ver = value
    return OK


@family.node("CLIENT INFO")
def client_info(node: NodeView) -> Reply:
    """Describe this connection in one line."""
    (own,) = (each for each in node.clients() if each.session is node.session)
    return Verbatim(line_of(own, node.now_s()) + b"\n")


@family.node("CLIENT LIST", repeated(string("option"), least=0))
def client_list(node: NodeView, words: list[bytes]) -> Reply:
    """Describe connections of this node, one a line.

    CLIENT LIST [TYPE normal | pubsub | master | replica | ID id [id ...]]
    """
    option = words[0].upper() if words else b""
    if not words:
        matches: Matches = always
    elif option == b"TYPE" and len(words) == 2:
        matches = of_type(words[1])
    elif option == b"ID" and len(words) > 1:
        wanted = {read_id(word, errors_node.BAD_CLIENT_ID) for word in words[1:]}
        matches = of_ids(wanted)
    else:
        return errors.SYNTAX_ERROR.failure()
    now_s = node.now_s()
    lines = [line_of(client, now_s) + b"\n" for client in node.clients() if matches(client)]
    return Verbatim(b"".join(lines))


@family.node("CLIENT KILL", repeated(string("filter")))
def client_kill(node: NodeView, words: list[bytes]) -> Reply:
    """Close connections of this node; what they sent before may still be executed.

    CLIENT KILL address:port, or any of ID id, ADDR address, LADDR address, USER name, TYPE type,
    SKIPME yes | no; answers how many it were.
    """
    if len(words) == 1:
        found = [each for each in node.clients() if each.session.address.encode() == words[0]]
        if not found:
            return errors_node.NO_SUCH_CLIENT.failure()
        kill(node, found[0])
        return OK
    if len(words) % 2:
        return errors.SYNTAX_ERROR.failure()
    skip_me = True
    filters: list[Matches] = []
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option.upper() == b"SKIPME" and value.lower() in (b"yes", b"no"):
            skip_me = value.lower() == b"yes"
        else:
            filters.append(filter_of(node, option.upper(), value))
    killed = 0
    for client in node.clients():
        own = client.session is node.session
        if all(matches(client) for matches in filters) and not (own and skip_me):
            kill(node, client)
            killed += 1
    return killed


def kill(node: NodeView, client: ClientStatus) -> None:
    """Close at once; this connection, after its answer."""
    if client.session is node.session:
        client.session.closing = True
    else:
        node.kill(client.session.id)


def filter_of(node: NodeView, option: bytes, value: bytes) -> Matches:
    """Which connections CLIENT KILL means. Raises StoreError."""
    text = value.decode("utf-8", "replace")
    match option:
        case b"ID":
            return of_ids({read_id(value, errors_node.BAD_CLIENT_ID_TO_KILL)})
        case b"TYPE":
            return of_type(value)
        case b"ADDR":
            return lambda client: client.session.address == text
        case b"LADDR":
            return lambda client: client.session.local_address == text
        case b"USER":
            if value not in node.users.names():
                raise errors_node.NO_SUCH_USER.refusal(name=errors.quoted(value))
            return lambda client: client.session.user == value
        case _:
            raise errors.SYNTAX_ERROR.refusal()


def always(client: ClientStatus) -> bool:
    """Any connection."""
    return True


def of_ids(ids: set[int]) -> Matches:
    """Those with such a number."""
    return lambda client: client.session.id in ids


def of_type(name: bytes) -> Matches:
    """Those of one of Redis's types. Raises StoreError."""
    if name.upper() not in TYPES:
        raise errors_node.UNKNOWN_CLIENT_TYPE.refusal(name=errors.quoted(name))
    kinds = {b"NORMAL": False, b"PUBSUB": True}
    wanted = kinds.get(name.upper())
    return lambda client: bool(client.session.subscriber.count) is wanted


def read_id(word: bytes, error: errors.ErrorCode) -> int:
    """A connection's number. Raises StoreError."""
    try:
        number = read_integer(word, Limits(), "client")
    except StoreError:
        raise error.refusal() from None
    if number <= 0:
        raise error.refusal()
    return number


def flags_of(session: Session) -> str:
    """Redis's letters: in a transaction, listening to channels; N for neither."""
    flags = "x" if session.transaction is not None else ""
    return flags + ("P" if session.subscriber.count else "") or "N"


def line_of(client: ClientStatus, now_s: float) -> bytes:
    """One line of CLIENT LIST, with Redis's names; some clients fail without all of them."""
    session = client.session
    queued = session.transaction
    fields: list[tuple[bytes, object]] = [
        (b"id", session.id),
        (b"addr", session.address),
        (b"laddr", session.local_address),
        (b"fd", session.fd),
        (b"name", session.name),
        (b"age", max(0, int(now_s - session.created_s))),
        (b"idle", client.idle_s),
        (b"flags", flags_of(session)),
        (b"db", session.db),
        (b"sub", len(session.subscriber.channels)),
        (b"psub", len(session.subscriber.patterns)),
        (b"ssub", 0),
        (b"multi", -1 if queued is None else len(queued.queued)),
        (b"qbuf", client.input_bytes),
        (b"qbuf-free", 0),
        (b"argv-mem", 0),
        (b"multi-mem", 0 if queued is None else queued.size_bytes),
        (b"rbs", 0),
        (b"rbp", 0),
        (b"obl", 0),
        (b"oll", 0),
        (b"omem", client.output_bytes),
        (b"tot-mem", client.input_bytes + client.output_bytes),
        (b"events", "r"),
        (b"cmd", session.last_command.lower().replace(" ", "|") or "NULL"),
        (b"user", session.user or b"(none)"),
        (b"redir", -1),
        (b"resp", session.protocol),
        (b"lib-name", session.lib_name),
        (b"lib-ver", session.lib_ver),
    ]
    return b" ".join(
        name + b"=" + (value if isinstance(value, bytes) else str(value).encode())
        for name, value in fields
    )


@family.node("CLIENT GETREDIR")
def client_getredir(node: NodeView) -> Reply:
    """Answer -1: nothing is tracked, so nothing is redirected."""
    return -1


@family.node("CLIENT TRACKINGINFO")
def client_trackinginfo(node: NodeView) -> Reply:
    """Tell that client side caching is off."""
    return Map({b"flags": Set([b"off"]), b"redirect": -1, b"prefixes": []})


@family.node("CLIENT TRACKING", repeated(string("option")))
def client_tracking(node: NodeView, words: list[bytes]) -> Reply:
    """Refuse client side caching; only OFF is agreed to."""
    if words[0].upper() not in (b"ON", b"OFF"):
        return errors.SYNTAX_ERROR.failure()
    return OK if words[0].upper() == b"OFF" else errors_node.NO_TRACKING.failure()


@family.node("CLIENT CACHING", string("mode"))
def client_caching(node: NodeView, mode: bytes) -> Reply:
    """Refuse client side caching."""
    return errors_node.NO_TRACKING.failure()


@family.node("CLIENT REPLY", string("mode"))
def client_reply(node: NodeView, mode: bytes) -> Reply:
    """Refuse to leave commands unanswered; only ON is agreed to."""
    if mode.upper() not in (b"ON", b"OFF", b"SKIP"):
        return errors.SYNTAX_ERROR.failure()
    return OK if mode.upper() == b"ON" else errors_node.NO_SILENCE.failure()


@family.node("CLIENT NO-EVICT", string("mode"))
def client_no_evict(node: NodeView, mode: bytes) -> Reply:
    """Agree: no client is ever closed for the memory that it uses."""
    return OK if mode.upper() in (b"ON", b"OFF") else errors.SYNTAX_ERROR.failure()


@family.node("CLIENT NO-TOUCH", string("mode"))
def client_no_touch(node: NodeView, mode: bytes) -> Reply:
    """Agree: reading a key never changes when it expires or whether it stays."""
    return OK if mode.upper() in (b"ON", b"OFF") else errors.SYNTAX_ERROR.failure()


@family.node("CLIENT UNBLOCK", string("client-id"), repeated(string("how"), least=0))
def client_unblock(node: NodeView, client: bytes, how: list[bytes]) -> Reply:
    """Answer 0: there are no blocking commands, so no client is blocked."""
    read_integer(client, Limits(), "client|unblock")
    if [word.upper() for word in how] not in ([], [b"TIMEOUT"], [b"ERROR"]):
        return errors.SYNTAX_ERROR.failure()
    return 0
