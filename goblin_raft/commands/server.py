"""Commands about the node and its cluster as a whole; answered by the node itself, at once."""

from __future__ import annotations

from goblin_raft import errors, errors_node
from goblin_raft.arguments import integer, optional, repeated, string
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.node_view import NodeView
from goblin_raft.readers import read_integer
from goblin_raft.reply import Reply, Status
from goblin_raft.spec import CATEGORIES, Family, Verb

family = Family("server")

# Redis's own words for BGSAVE.
SNAPSHOT_STARTED = Status(b"Background saving started")


@family.node("CLUSTER", repeated(string("argument")))
def cluster(node: NodeView, words: list[bytes]) -> Reply:
    """Refuse: every node takes every command, so there are no slots to learn."""
    return errors_node.CLUSTER_DISABLED.failure()


@family.node("ROLE")
def role(node: NodeView) -> Reply:
    """Answer as a Redis master does, on every node; the leader lists its followers.

    The offsets are positions in the log. INFO raft says which node leads.
    """
    status = node.status()
    followers: list[Reply] = [
        [host.encode(), port.encode(), str(index).encode()]
        for host, port, index in status.followers()
    ]
    return [b"master", status.commit_index, followers]


@family.node("TIME")
def time(node: NodeView) -> Reply:
    """Tell this node's wall clock: seconds, and microseconds of the second.

    Leases do not run by it: they run by the time that lies in the log.
    """
    seconds, microseconds = divmod(int(node.now_s() * 1_000_000), 1_000_000)
    return [str(seconds).encode(), str(microseconds).encode()]


@family.node("WAIT", integer("numreplicas"), string("timeout"))
def wait(node: NodeView, replicas: int, timeout: bytes) -> Reply:
    """Tell, at once, how many other nodes hold every write that this connection was answered.

    A majority is certain before any write is answered; the leader counts those that it knows of.
    """
    check_timeout(timeout)
    return holders(node)


@family.node("WAITAOF", integer("numlocal"), integer("numreplicas"), string("timeout"))
def waitaof(node: NodeView, local: int, replicas: int, timeout: bytes) -> Reply:
    """As WAIT, with this node before: all of them have the writes on disk."""
    check_timeout(timeout)
    return [1, holders(node)]


def check_timeout(word: bytes) -> None:
    """Redis has its own words for a bad one. Raises StoreError."""
    try:
        read_integer(word, Limits(), "wait")
    except StoreError:
        raise errors_node.BAD_TIMEOUT.refusal() from None


def holders(node: NodeView) -> int:
    """Other nodes with the log up to what this node has seen committed, at least."""
    status = node.status()
    certain = (len(status.peers) + 1) // 2  # a majority without one of its nodes
    known = sum((peer.match_index or 0) >= status.commit_index for peer in status.peers)
    return max(certain, known)


@family.node("GOBLIN.SNAPSHOT", in_transactions=False)
def goblin_snapshot(node: NodeView) -> Reply:
    """Write a snapshot of this node's state now, and then drop the log before it."""
    return SNAPSHOT_STARTED if node.take_snapshot() else errors_node.SNAPSHOT_UNDER_WAY.failure()


@family.node("BGSAVE", repeated(string("option"), least=0))
def bgsave(node: NodeView, options: list[bytes]) -> Reply:
    """Redis's name for GOBLIN.SNAPSHOT."""
    if [option.upper() for option in options] not in ([], [b"SCHEDULE"]):
        return errors.SYNTAX_ERROR.failure()
    return goblin_snapshot(node)


@family.node("GOBLIN.DIGEST")
def goblin_digest(node: NodeView) -> Reply:
    """Tell what this node holds as one number, to compare nodes with.

    Replies the index of the last entry that this node has applied, and the SHA-256 of its whole
    state: nodes that answer with the same index answer with the same digest. The node reads all
    that it holds for this and serves nobody meanwhile: some two seconds for each million keys.
    """
    return [node.status().applied_index, node.state_digest().encode()]


@family.node("LASTSAVE")
def lastsave(node: NodeView) -> Reply:
    """When this process last wrote a snapshot, in seconds of its wall clock; 0 if it has not."""
    return node.status().snapshot.saved_s


family.container("MODULE", "Answer that there are no modules.")


@family.node("MODULE LIST")
def module_list(node: NodeView) -> Reply:
    """List no modules."""
    return []


family.container("ACL", "Show the users of the setting `users`.")


@family.node("ACL WHOAMI")
def acl_whoami(node: NodeView) -> Reply:
    """Tell the user of this connection."""
    return node.session.user


@family.node("ACL USERS")
def acl_users(node: NodeView) -> Reply:
    """List the names of all users."""
    return [*node.users.names()]


@family.node("ACL LIST")
def acl_list(node: NodeView) -> Reply:
    """List the users in Redis's notation, without their passwords: each may do everything."""
    how = b"sanitize-payload" if node.users.required else b"nopass sanitize-payload"
    return [b"user %b on %b ~* &* +@all" % (name, how) for name in node.users.names()]


@family.node("ACL CAT", optional(string("category")))
def acl_cat(node: NodeView, category: bytes | None) -> Reply:
    """List the categories of commands, or the commands of one."""
    from goblin_raft.commands.introspection import table

    known = {f"@{verb.value}" for verb in Verb if verb is not Verb.NODE} | set(CATEGORIES.values())
    if category is None:
        return [name[1:].encode() for name in sorted(known)]
    wanted = "@" + category.decode("utf-8", "replace").lower()
    if wanted not in known:
        return errors_node.UNKNOWN_CATEGORY.failure(name=errors.quoted(category))
    return [name.lower() for name, each in table().items() if wanted in each.categories]
