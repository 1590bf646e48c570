"""(state, log entry) -> (state, replies): the only place that changes the replicated state.

It is the same on every node because it depends on nothing but the entries: no clock, no
randomness, no order of a set. Where entries come from is not known here.
"""

from __future__ import annotations

import hashlib
import logging
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from weakref import WeakSet

from goblin_raft import errors
from goblin_raft.changes import HISTORY_BYTES, History, Watch, Watched
from goblin_raft.commands import TABLE, UNNAMED
from goblin_raft.entry import Unreadable, decode_entry, decode_proposal
from goblin_raft.errors import StoreError
from goblin_raft.keyspace import Databases, Instant, Keyspace
from goblin_raft.machine_state import StateLoader, encode_state
from goblin_raft.notifications import EXPIRED, Noting, tell, tell_changes
from goblin_raft.origins import Origins
from goblin_raft.pubsub import Hub
from goblin_raft.reply import Reply
from goblin_raft.spec import Handler, Verb

logger = logging.getLogger(__name__)

DATABASES = 16
# Keys that are over are removed in steps, so that a million leases that end at once hold nobody
# up. More may expire than commands arrive only for a while, so a share per command keeps up.
REMOVALS_PER_ENTRY = 200
REMOVALS_PER_COMMAND = 2
# How often, by machine time, the boots that may be forgotten are looked for.
FORGET_EVERY_MS = 60_000

# How a transaction lies in the log: [EXECUTE, 0, watched keys, commands].
EXECUTE = "EXEC"
# They change keys through others, or none at all.
UNOBSERVED = frozenset({EXECUTE, "PUBLISH"})

INTERNAL_ERROR = errors.INTERNAL_ERROR.failure()


class Outcome(NamedTuple):
    """What became of one proposal; no replies when it is a copy of one that was applied before."""

    origin: str
    boot: int
    sequence: int
    replies: list[Reply] | None


class _Runner(NamedTuple):
    """What applying needs of a command."""

    handler: Handler
    # Of the command in the log: name, database, arguments. Those that a later version has added
    # stand at the end and have defaults, so that it can read the logs of an earlier one.
    least: int
    length: int
    whole: bool


def _runners(*verbs: Verb) -> dict[str, _Runner]:
    found = {}
    for command in (*TABLE.values(), *UNNAMED.values()):
        if command.verb in verbs:
            length = 2 + command.width
            added = len(getattr(command.handler, "__defaults__", None) or ())
            found[command.name] = _Runner(command.handler, length - added, length, command.whole)
    return found


class StateMachine:
    """The replicated state, and counters of this process that are no part of it."""

    def __init__(self, databases: int = DATABASES) -> None:
        self.history = History()
        self.keyspaces = [Keyspace(self.history) for _ in range(databases)]
        self.origins = Origins()
        self.now_ms = 0
        self.wall_ms = 0
        self.applied_entries = 0
        self.applied_commands = 0
        self.skipped_proposals = 0
        self.expired_keys = 0
        self.internal_errors = 0
        # Of this node's own clients: they depend on the state, and the state does not on them.
        self.watches: WeakSet[Watch] = WeakSet()
        self.hub = Hub()
        self._runners = _runners(Verb.WRITE, Verb.READ)
        self._runners[EXECUTE] = _Runner(self._execute, 4, 4, whole=True)
        self._readers = _runners(Verb.READ)

    # ---- entries -------------------------------------------------------------------------------

    def apply(self, data: bytes) -> list[Outcome]:
        """Apply one committed entry: one outcome for each of its proposals.

        Raises nothing but Unreadable and MemoryError. These are not the same on every node, or
        cannot be got over, and must stop the process.
        """
        entry = decode_entry(data)
        now_ms = max(self.now_ms, entry.stamp_ms)
        if now_ms // FORGET_EVERY_MS != self.now_ms // FORGET_EVERY_MS:
            self.origins.forget(now_ms)
        self.now_ms = now_ms
        self.wall_ms = entry.wall_ms
        history = self.history
        history.entry += 1
        at = Instant(now_ms, now_ms, entry.wall_ms)
        outcomes = []
        commands = 0
        for proposal in map(decode_proposal, entry.proposals):
            replies: list[Reply] | None = None
            if self.origins.admit(proposal, now_ms):
                replies = self._run_all(proposal.commands, at)
                commands += len(replies)
            else:
                self.skipped_proposals += 1
            outcomes.append(Outcome(proposal.origin, proposal.boot, proposal.sequence, replies))
        self._remove_expired(REMOVALS_PER_ENTRY + REMOVALS_PER_COMMAND * commands)
        history.size_bytes += len(data)
        if history.size_bytes >= HISTORY_BYTES:
            self._next_generation()
        self.applied_entries += 1
        self.applied_commands += commands
        return outcomes

    def read(self, command: list[Any], cluster_ms: int) -> Reply:
        """Run a read command on the state as it is here and now."""
        at = Instant(self.now_ms, max(self.now_ms, cluster_ms), self.wall_ms)
        name, db, *arguments = command
        handler, _, _, whole = self._readers[name]
        try:
            target = Databases(self.keyspaces, db, self.hub) if whole else self.keyspaces[db]
            return handler(target, at, *arguments)
        except Exception as error:
            return self._failed(name, error)

    # ---- transactions --------------------------------------------------------------------------

    def watch(self, watch: Watch, db: int, keys: list[bytes]) -> None:
        """Note keys as this node sees them now."""
        for key in keys:
            watch.add(self.keyspaces[db].note(db, key, self.now_ms))
        self.watches.add(watch)

    def has_changed(self, watch: Watch) -> bool:
        """Whether a watched key was changed, as far as this node has applied the log."""
        watch.renew(self.keyspaces, self.now_ms)
        return watch.changed

    def read_transaction(self, commands: list[list[Any]], cluster_ms: int) -> list[Reply]:
        """Commands that only read, all on the state as it is here and now."""
        return [self.read(command, cluster_ms) for command in commands]

    def _execute(
        self, _: list[Keyspace], at: Instant, watched: list[Watched], commands: list[list[Any]]
    ) -> Reply:
        """All commands, or none and nil when a watched key was changed."""
        if any(self.keyspaces[each[0]].has_changed(each, at.now_ms) for each in watched):
            return None
        return self._run_all(commands, at)

    def _next_generation(self) -> None:
        for watch in self.watches:
            watch.renew(self.keyspaces, self.now_ms)
        for keyspace in self.keyspaces:
            keyspace.next_generation()
        self.history.began = self.history.entry
        self.history.size_bytes = 0

    def _run_all(self, commands: list[list[Any]], at: Instant) -> list[Reply]:
        """All commands of a proposal, in order; one reply each."""
        if self.hub.wants_changes:
            return self._run_observed(commands, at)
        return self._run_plain(commands, at)

    def _run_observed(self, commands: list[list[Any]], at: Instant) -> list[Reply]:
        """One by one, and tell those who listen what each has changed."""
        replies: list[Reply] = []
        for command in commands:
            notings = [Noting(db, space) for db, space in self._may_change(command)]
            replies += self._run_plain([command], at)
            for noting in notings:
                noting.end()
                tell_changes(self.hub, command, noting, at.now_ms)
        return replies

    def _may_change(self, command: list[Any]) -> list[tuple[int, Keyspace]]:
        """The databases whose keys it may change itself; none if it cannot be read."""
        match command:
            case [str(name), int(db), *_] if name in self._runners and name not in UNOBSERVED:
                everything = list(enumerate(self.keyspaces))
                return everything if self._runners[name].whole else everything[db : db + 1]
        return []

    def _run_plain(self, commands: list[list[Any]], at: Instant) -> list[Reply]:
        runners, keyspaces = self._runners, self.keyspaces
        replies: list[Reply] = []
        for command in commands:
            try:
                name, db, *arguments = command
                handler, least, length, whole = runners[name]
                target = Databases(keyspaces, db, self.hub) if whole else keyspaces[db]
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise _unreadable(command) from error
            if not least <= len(command) <= length:
                raise _unreadable(command)
            try:
                replies.append(handler(target, at, *arguments))
            except Exception as error:
                replies.append(self._failed(name, error))
        return replies

    def _failed(self, name: str, error: Exception) -> Reply:
        """A handler raised: a refusal is an answer; anything else is a bug, the same everywhere."""
        if isinstance(error, StoreError):
            return error.reply
        if isinstance(error, MemoryError | Unreadable):
            raise error  # not the same on every replica: this process must end
        self.internal_errors += 1
        # The text of an exception may quote a client's data, which has no business in a log.
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].name}:{frames[-1].lineno}"
        logger.error("apply.bug command=%s error=%s at=%s", name, type(error).__name__, place)
        return INTERNAL_ERROR

    # ---- time ----------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """The nearest deadline of all keys; it may be past already, while removal lags behind."""
        nearest = (space.next_deadline_ms() for space in self.keyspaces if space.deadlines)
        return min((ms for ms in nearest if ms is not None), default=None)

    def _remove_expired(self, budget: int) -> None:
        for db, keyspace in enumerate(self.keyspaces):
            if budget and keyspace.deadlines:
                gone: list[bytes] | None = [] if self.hub.wants_changes else None
                removed = keyspace.remove_expired(self.now_ms, budget, gone)
                budget -= removed
                self.expired_keys += removed
                for key in gone or ():
                    tell(self.hub, db, key, EXPIRED)

    # ---- snapshots -----------------------------------------------------------------------------

    def blocks(self) -> Iterator[bytes]:
        """All that is replicated, as machine_state.py puts it: equal states, equal blocks."""
        return encode_state(self.now_ms, self.wall_ms, self.origins, self.keyspaces)

    def state(self) -> list[bytes]:
        """The same, all at once."""
        return list(self.blocks())

    def loader(self) -> StateLoader:
        """Collects the blocks of another machine's state, for `install`."""
        return StateLoader(len(self.keyspaces))

    def install(self, loader: StateLoader) -> None:
        """Become the machine that gave these blocks; Unreadable, and no change, without an end."""
        if not loader.ended:
            msg = "the state is not complete"
            raise Unreadable(msg)
        self.now_ms, self.wall_ms = loader.now_ms, loader.wall_ms
        self.origins, self.keyspaces = loader.origins, loader.keyspaces
        self.history = loader.history

    def restore(self, blocks: Iterable[bytes]) -> None:
        """Load and install all in one go. Raises Unreadable, and then nothing changed."""
        loader = self.loader()
        for block in blocks:
            loader.feed(block)
        self.install(loader)

    def digest(self) -> str:
        """SHA-256 of the state, to compare replicas with."""
        digest = hashlib.sha256()
        for block in self.blocks():
            digest.update(block)
        return digest.hexdigest()


def _unreadable(command: Any) -> Unreadable:
    shown = command[:1] if isinstance(command, list) else type(command).__name__
    return Unreadable(f"the log holds a command that this version does not know: {shown!r}")
