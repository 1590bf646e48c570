"""Our fixes taken out one by one, and bugs planted: how many seeds until the simulator sees it.

Each is stated with the number of seeds within which it is found: several times what it took when it
was measured, so that a change of the schedules does not matter. docs/simulator.md has what is not
found here, and where it is tested instead.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from goblin_raft.clock import ClusterClock
from goblin_raft.consensus import barrier, log, proposals, replica
from goblin_raft.consensus.barrier import ReadBarrier
from goblin_raft.consensus.elections import Elections
from goblin_raft.consensus.node import RaftNode
from goblin_raft.consensus.replication import Replication
from goblin_raft.consensus.snapshot_transfer import SnapshotTransfer
from tests.planted_bugs import BUGS, Patch, Put, patched
from tests.simulator.cluster import Cluster
from tests.simulator.run import Result, run_seed


@dataclass(frozen=True)
class Ablation:
    """One fix less, or one bug more."""

    patch: Patch
    seeds: int  # it is found within so many
    fix: str = ""  # the row of docs/consensus.md that it takes out

    @property
    def name(self) -> str:
        return self.patch.__name__

    @property
    def what(self) -> str:
        return (self.patch.__doc__ or "").strip().partition("\n")[0]


TABLE: dict[str, Ablation] = {}


def removes(fix: str, seeds: int):
    def note(patch: Patch) -> Patch:
        TABLE[patch.__name__] = Ablation(patch, seeds, fix)
        return patch

    return note


# ---- log and votes -------------------------------------------------------------------------------


@removes("D3", 100)
def restart_drops_what_follows_the_snapshot(put: Put) -> None:
    """A start keeps the log up to the snapshot only."""
    real = log.Storage._read_entries

    def read_entries(self):
        entries, clock = real(self)
        snapshot = self._read_snapshot_record()
        if snapshot is not None:
            entries = [entry for entry in entries if entry[1] <= snapshot.last_index]
        return entries, clock

    put(log.Storage, "_read_entries", read_entries)
    put(log.Storage, "_compare_with_mark", lambda self, contents: None)


@removes("D11", 100)
def votes_leave_before_the_disk(put: Put) -> None:
    """Votes do not wait for the batch that holds them."""
    put(replica, "_AT_ONCE", replica._AT_ONCE | {"vote_answer", "request_vote"})


@removes("D11", 30)
def acknowledgements_leave_before_the_disk(put: Put) -> None:
    """Acknowledgements do not wait for the batch that holds the entries."""
    put(replica, "_AT_ONCE", replica._AT_ONCE | {"append_answer"})


@removes("D11", 30)
def turns_while_the_disk_writes(put: Put) -> None:
    """The next turn does not wait for the disk: the leader's own copy counts too early."""
    put(Cluster, "waits_for_disk", False)


@removes("D9", 30)
def commit_index_from_the_log(put: Put) -> None:
    """A node that starts takes all that it has for committed."""
    real = RaftNode.__init__

    def init(self, *arguments):
        real(self, *arguments)
        self._commit_index = self._log[-1][1]

    put(RaftNode, "__init__", init)


# ---- replication ---------------------------------------------------------------------------------


@removes("D5", 100)
def exceptions_of_callers_get_out(put: Put) -> None:
    """What a waiting caller raises reaches the turn."""
    for module in (barrier, proposals):
        put(module, "call_back", lambda callback, value: callback(value))


@removes("D7", 100)
def damaged_snapshot_acknowledged(put: Put) -> None:
    """A snapshot that cannot be loaded is said to be installed."""
    real = SnapshotTransfer._answer_snapshot

    def answer(self, *arguments, damaged=False, done=False, **named):
        real(self, *arguments, done=done or damaged, **named)

    put(SnapshotTransfer, "_answer_snapshot", answer)


@removes("r06b", 600)
def no_answer_to_an_old_leader(put: Put) -> None:
    """A leader of an earlier term is not told that it is one."""
    real = Replication.on_append_entries

    def on_append_entries(self, peer, message):
        if message["term"] >= self._term:
            real(self, peer, message)

    put(Replication, "on_append_entries", on_append_entries)


@removes("r16", 300)
def one_step_back_at_a_time(put: Put) -> None:
    """A mismatch is answered with the entry before, not with what is committed."""
    real = Replication.answer

    def answer(self, peer, *, success, hint=0):
        if not success and hint == self._commit_index + 1:
            hint = max(2, self._log[-1][1])
        real(self, peer, success=success, hint=hint)

    put(Replication, "answer", answer)


# ---- elections -----------------------------------------------------------------------------------


@removes("r06", 100)
def no_pre_vote(put: Put) -> None:
    """A node that hears no leader campaigns at once."""
    put(Elections, "_SyncObj__connectedToAnyone", lambda self: self.is_voter)


@removes("r06", 100)
def pre_votes_although_a_leader_is_heard(put: Put) -> None:
    """A node grants pre-votes while it hears a leader."""
    real = Elections.on_pre_vote

    def on_pre_vote(self, peer, message):
        heard_s, self.leader_heard_s = self.leader_heard_s, float("-inf")
        real(self, peer, message)
        self.leader_heard_s = heard_s

    put(Elections, "on_pre_vote", on_pre_vote)


@removes("votes", 100)
def votes_for_shorter_logs(put: Put) -> None:
    """Voters do not compare logs."""
    put(Elections, "_is_up_to_date", lambda self, message: True)


# ---- reads ---------------------------------------------------------------------------------------


@removes("barrier", 300)
def new_leader_reads_at_its_commit_index(put: Put) -> None:
    """A new leader answers reads before an entry of its own term is committed."""
    real = RaftNode._SyncObj__onBecomeLeader

    def on_become_leader(self):
        real(self)
        self.no_op_index = 0

    put(RaftNode, "_SyncObj__onBecomeLeader", on_become_leader)


@removes("barrier", 1000)
def confirmations_of_earlier_rounds_count(put: Put) -> None:
    """A confirmation counts for a read that arrived after it was asked for."""

    def on_probe_answer(self, peer_id, round_number):
        self.confirmed[peer_id] = self.round

    put(ReadBarrier, "on_probe_answer", on_probe_answer)


# ---- time ----------------------------------------------------------------------------------------


@removes("clock", 600)
def any_leader_ever_heard_counts(put: Put) -> None:
    """A node keeps to an earlier leader's time when that is ahead of the present one's."""
    real = ClusterClock.hear

    def hear(self, leader_ms, steady_ms, *, term):
        self._heard_term = term
        real(self, leader_ms, steady_ms, term=term)

    put(ClusterClock, "hear", hear)


@removes("clock", 300)
def own_wall_clock_outlives_a_leader(put: Put) -> None:
    """A node goes on by its own wall clock's jump although it hears a leader."""

    def hear(self, leader_ms, steady_ms, *, term):
        if self._set:
            leader_ms = max(leader_ms, self._read(steady_ms))
        self._rebase(leader_ms, steady_ms)

    put(ClusterClock, "hear", hear)


@removes("clock", 300)
def stamps_begin_anew_with_each_leader(put: Put) -> None:
    """A new leader does not look at the last stamp in its log."""
    put(replica.Replica, "_last_stamp_in_log", lambda self: 0)


# ---- exactly once --------------------------------------------------------------------------------


@removes("boots", 100)
def every_boot_has_the_same_number(put: Put) -> None:
    """After a restart a node's proposals have the numbers of earlier ones."""
    real = replica.Replica.__init__

    def init(self, config, *, boot, **named):
        real(self, config, boot=1, **named)

    put(replica.Replica, "__init__", init)


# ---- and the planted bugs ------------------------------------------------------------------------

FIX_OF_BUG = {
    "answer_before_disk": "D4",
    "vote_not_persisted": "D11",
    "truncation_without_conflict": "D2",
    "answers_more_than_proved": "D2",
    "answer_without_term": "D6",
    "commits_unproved": "D1",
    "older_snapshot_over_newer": "D10",
}
SEEDS_OF_BUG = {
    "read_without_majority": 600,
    "older_snapshot_over_newer": 1500,
    "answer_without_term": 3000,
    "old_term_committed_by_counting": 600,
    "truncation_without_conflict": 300,
    "answers_more_than_proved": 400,
    "leads_when_asked": 600,
    "wiped_node_votes_at_once": 1000,
    "vote_not_persisted": 300,
    "claim_granted_twice": 300,
}
for _name, _patch in BUGS.items():
    TABLE[_name] = Ablation(_patch, SEEDS_OF_BUG.get(_name, 100), FIX_OF_BUG.get(_name, ""))

# Found so soon that every run of the tests can look for them; the rest takes minutes.
QUICK = frozenset(name for name, ablation in TABLE.items() if ablation.seeds <= 100)


def find(name: str, seeds: int = 0, first: int = 0) -> tuple[str, int, Result | None, float]:
    """(name, seeds run, the run that broke a promise, seconds); every third has five nodes."""
    ablation, began_s, count = TABLE[name], time.monotonic(), 0
    with patched(ablation.patch):
        for seed in range(first, first + (seeds or ablation.seeds)):
            count += 1
            result = run_seed(seed, 3 if seed % 3 else 5)
            if result.rule is not None:
                return name, count, result, time.monotonic() - began_s
    return name, count, None, time.monotonic() - began_s


def find_all(names: Iterable[str]) -> Iterator[tuple[str, int, Result | None, float]]:
    """All of them, on all cores."""
    workers = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        yield from pool.imap_unordered(find, sorted(names, key=lambda name: TABLE[name].seeds))


def main() -> int:
    """The whole table."""
    missed = 0
    for name, count, result, seconds in find_all(TABLE):
        ablation = TABLE[name]
        missed += result is None
        found = "NOT FOUND" if result is None else f"{result.rule}: {result.text}".split("\n")[0]
        print(
            f"{name:42} {ablation.fix:8} {count:4} of {ablation.seeds:4} seeds {seconds:6.1f} s"
            f"  {found[:90]}",
            flush=True,
        )
    print(f"{len(TABLE)} fixes removed or bugs planted, {missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
