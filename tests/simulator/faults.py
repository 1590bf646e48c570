"""Carries out the faults of a plan on a cluster; decides nothing but what a plan leaves open."""

from __future__ import annotations

from typing import Any

from tests.simulator.cluster import Cluster, Node
from tests.simulator.plan import LEADER, Event


class Faults:
    """One method a kind."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.names = cluster.names

    def happen(self, event: Event) -> None:
        getattr(self, event.kind)(*event.arguments)

    def _later(self, for_ms: float, what: Any, *arguments: Any) -> None:
        self.cluster.after(for_ms / 1000, what, *arguments)

    def _node(self, target: int) -> Node:
        return self.cluster.nodes[self.cluster.name_of(target)]

    # ---- the network -----------------------------------------------------------------------------

    def cut(self, one: int, other: int, for_ms: float) -> None:
        """A session ends with bytes under way, and a new one begins."""
        a, b = self.names[one], self.names[other]
        self.cluster.say(f"{a} -> {b} is cut")
        self.cluster.cut(a, b)
        self._later(for_ms, self.cluster.connect, a, b)

    def hold(self, one: int, other: int, for_ms: float, ends_in_cut: bool) -> None:
        a, b = self.names[one], self.names[other]
        self._block([(a, b), (b, a)], for_ms, black_hole=True, ends_in_cut=ends_in_cut)

    def one_way(self, one: int, other: int, for_ms: float, black_hole: bool) -> None:
        self._block([(self.names[one], self.names[other])], for_ms, black_hole=black_hole)

    def isolate(self, target: int, for_ms: float, black_hole: bool) -> None:
        name = self.cluster.name_of(target)
        rest = [other for other in self.names if other != name]
        pairs = [(name, other) for other in rest] + [(other, name) for other in rest]
        self._block(pairs, for_ms, black_hole=black_hole)

    def split(self, order: tuple[int, ...], size: int, for_ms: float, black_hole: bool) -> None:
        self._divide(order[:size], order[size:], for_ms, black_hole)

    def bridge(self, order: tuple[int, ...], size: int, for_ms: float, black_hole: bool) -> None:
        """Two halves that only one node can talk to, both of them."""
        middle = min(size, len(order) - 2)
        self._divide(order[:middle], order[middle + 1 :], for_ms, black_hole)

    def _divide(
        self, ones: tuple[int, ...], others: tuple[int, ...], for_ms: float, black_hole: bool
    ) -> None:
        pairs = [(self.names[a], self.names[b]) for a in ones for b in others]
        self._block(pairs + [(b, a) for a, b in pairs], for_ms, black_hole=black_hole)

    def _block(
        self,
        pairs: list[tuple[str, str]],
        for_ms: float,
        *,
        black_hole: bool,
        ends_in_cut: bool = False,
    ) -> None:
        how = "swallows" if black_hole else "has no session"
        self.cluster.say(f"{', '.join(f'{a} -> {b}' for a, b in pairs)} {how} for {for_ms:.0f} ms")
        for pair in pairs:
            link = self.cluster.links[pair]
            if black_hole:
                if link.held is None:
                    link.held = []
            else:
                link.blocked += 1
                self.cluster.cut(*pair)
        self._later(for_ms, self._unblock, pairs, black_hole, ends_in_cut)

    def _unblock(self, pairs: list[tuple[str, str]], black_hole: bool, ends_in_cut: bool) -> None:
        if self.cluster.calm:
            return  # all was healed already
        self.cluster.say(f"{', '.join(f'{a} -> {b}' for a, b in pairs)} is well again")
        for pair in pairs:
            link = self.cluster.links[pair]
            if not black_hole:
                link.blocked -= 1
            elif ends_in_cut:
                self.cluster.cut(*pair)
            else:
                self.cluster.release_held(*pair)
            self.cluster.after(self.cluster.random.uniform(0, 0.01), self.cluster.connect, *pair)

    def strand(
        self, start: int, companions: int, for_ms: float, rest_ms: float, late_ms: float
    ) -> None:
        """The leader and a minority with it are cut off from the rest, which elects another; what
        the minority answers is still under way when the old leader is back and leads again."""
        cluster = self.cluster
        leader = cluster.name_of(LEADER)
        others = [name for name in self.names if name != leader]
        others = others[start % len(others) :] + others[: start % len(others)]
        ours, rest = [leader, *others[:companions]], others[companions:]
        cluster.say(f"{leader} is stranded with {others[:companions]}")
        pairs = [(a, b) for a in ours for b in rest]
        self._block(pairs + [(b, a) for a, b in pairs], for_ms, black_hole=False)
        answers = [(name, leader) for name in others[:companions]]
        if answers:
            self._block(answers, for_ms + rest_ms + late_ms, black_hole=True)
        self._later(for_ms + rest_ms, self._lead_again, leader)

    def _lead_again(self, name: str) -> None:
        """As a leader may ask of a follower that has all its entries."""
        node = self._node(LEADER)
        if self.cluster.calm:
            return
        if node.up and not node.paused and node.writing is None and node.name != name:
            raft = node.replica.node
            if raft.is_leader and raft.match_index(name) == node.log[-1][1]:
                message = {"type": "timeout_now", "term": raft.term}
                self.cluster.send(node, [(name, message)])

    def leave_behind(self, target: int, for_ms: float) -> None:
        """A node is cut off until the others have snapshots, and no longer the log before them."""
        name = self.names[target]
        others = [other for other in self.names if other != name]
        pairs = [(name, other) for other in others] + [(other, name) for other in others]
        self._block(pairs, for_ms, black_hole=False)
        for other in others:
            self._later(for_ms * 0.6, self.snapshot, self.names.index(other), 0.5, False)

    # ---- processes -------------------------------------------------------------------------------

    def crash(self, target: int, for_ms: float, step: str, fate: float) -> None:
        """The next time that the node gets to this step."""
        node = self._node(target)
        if node.up:
            node.doom = (step, for_ms / 1000, fate)

    def power(self, each: tuple[tuple[float, float], ...]) -> None:
        """All nodes at once."""
        for name, (down_ms, fate) in zip(self.names, each, strict=True):
            self.cluster.crash(name, down_ms / 1000, fate)

    def pause(self, target: int, for_ms: float) -> None:
        node = self._node(target)
        if node.up and not node.paused:
            self.cluster.say(f"{node.name} is paused for {for_ms:.0f} ms")
            node.paused = True
            self._later(for_ms, self.cluster.resume, node.name, node.life)

    # ---- disks -----------------------------------------------------------------------------------

    def slow_disk(self, target: int, for_ms: float, factor: float) -> None:
        node = self._node(target)
        node.slow = factor
        self._later(for_ms, self._fast_disk, node)

    def _fast_disk(self, node: Node) -> None:
        node.slow = 1.0

    def stuck_disk(self, target: int, for_ms: float) -> None:
        node = self._node(target)
        node.stuck_until_s = self.cluster.now_s + for_ms / 1000
        self.cluster.say(f"{node.name}'s disk is stuck for {for_ms:.0f} ms")

    def disk_error(self, target: int, for_ms: float) -> None:
        """It is full, or fails, for a while."""
        node = self._node(target)
        node.disk.fails = True
        self._later(max(for_ms, 50.0), self._disk_works, node)

    def _disk_works(self, node: Node) -> None:
        node.disk.fails = False

    def wipe(self, target: int, for_ms: float) -> None:
        self.cluster.wipe(self.cluster.name_of(target), for_ms / 1000)

    def damage(self, target: int, share: float) -> None:
        """Of the next bytes of a snapshot that it receives, one bit flips."""
        self._node(target).disk.flips = share

    # ---- clocks ----------------------------------------------------------------------------------

    def wall(self, target: int, jump_ms: float) -> None:
        node = self._node(target)
        node.wall_skew_ms += jump_ms
        node.wall_forward_ms += max(0.0, jump_ms)
        node.wall_back_ms += max(0.0, -jump_ms)
        self.cluster.say(f"{node.name}'s wall clock jumps by {jump_ms / 1000:.0f} s")

    def rate(self, target: int, rate: float) -> None:
        node, now_ms = self._node(target), self.cluster.now_ms
        node.steady_base = (now_ms, node.steady_ms(now_ms))
        node.rate = rate

    # ---- what operators and clients may do -------------------------------------------------------

    def hand_over(self) -> None:
        for node in self.cluster.alive():
            if node.replica.node.is_leader and not node.paused:
                self.cluster.say(f"{node.name} is to hand over")
                node.replica.hand_over()
                self.cluster.wake(node)

    def snapshot(self, target: int, took_ms: float, fails: bool) -> None:
        node = self._node(target)
        if node.up and not node.paused:
            node.snapshot_s = took_ms / 1000
            node.snapshot_fails = fails
            node.replica.snapshots.request()

    def raise_(self) -> None:
        """The next client that is answered fails at it."""
        self.cluster.raising = True

    # ---- the end ---------------------------------------------------------------------------------

    def heal(self) -> None:
        """From now on nothing goes wrong any more."""
        cluster = self.cluster
        cluster.say("all is well from now on")
        cluster.calm = True
        for pair, link in cluster.links.items():
            link.blocked = 0
            if link.held is not None:
                cluster.release_held(*pair)
        for name, node in cluster.nodes.items():
            node.slow, node.stuck_until_s, node.doom = 1.0, 0.0, None
            node.disk.fails = False
            node.disk.flips = None
            cluster.resume(name, node.life)
            cluster.start(name)
        for pair in cluster.links:
            cluster.connect(*pair)


setattr(Faults, "raise", Faults.raise_)
