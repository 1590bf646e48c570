"""A cluster stepped by hand, with the same controls for pysyncobj as it is and for ours.

No sockets, threads or timers: time stands still unless a test moves it, "a timeout has passed" is
an order, and a message arrives when the test says so. So one scenario can be played on both.
"""

from __future__ import annotations

from collections import defaultdict, deque

IDS = ("A", "B", "C")


class Clock:
    """Both clusters' time."""

    def __init__(self) -> None:
        self.now_s = 1000.0


class Cluster:
    """What is the same for both: links, messages under way, and what clients were told."""

    def __init__(self, clock, directory, ids=IDS) -> None:
        self.clock = clock
        self.directory = directory
        self.ids = ids
        self.links: set[tuple[str, str]] = set()
        self.wires: dict[tuple[str, str], deque] = defaultdict(deque)
        self.told: dict[str, list[str]] = defaultdict(list)  # by command: done, refused, unknown
        self.up: set[str] = set()
        for node in ids:
            self.start(node)

    def connect(self, one, other) -> None:
        for a, b in ((one, other), (other, one)):
            self.links.add((a, b))
            self.link_changed(a, b, up=True)

    def connect_all(self) -> None:
        for a in self.ids:
            for b in self.ids:
                if a < b:
                    self.connect(a, b)

    def cut(self, one, other) -> None:
        """What is under way is lost."""
        for a, b in ((one, other), (other, one)):
            self.wires[a, b].clear()
            if (a, b) in self.links:
                self.links.discard((a, b))
                if a in self.up:
                    self.link_changed(a, b, up=False)

    def isolate(self, node) -> None:
        for other in self.ids:
            if other != node:
                self.cut(node, other)

    def send(self, source, target, message) -> bool:
        if (source, target) not in self.links:
            return False
        self.wires[source, target].append(message)
        return True

    def deliver(self, source, target, count=None) -> int:
        """The oldest messages of a link; all of them unless `count` says how many."""
        wire = self.wires[source, target]
        done = 0
        while wire and (count is None or done < count):
            self.arrive(source, target, wire.popleft())
            done += 1
        if done:
            self.after_delivery(target)
        return done

    def exchange(self, *nodes) -> None:
        """Deliver among these until all are silent."""
        busy = True
        while busy:
            busy = False
            for a in nodes or sorted(self.up):
                for b in nodes or sorted(self.up):
                    if a != b and self.deliver(a, b):
                        busy = True

    def settle(self, leader, *followers, rounds=6) -> None:
        """Some healthy heartbeats."""
        for _ in range(rounds):
            self.beat(leader)
            self.exchange(leader, *followers)
            for node in (leader, *followers):
                self.tick(node)

    def elect(self, node, *voters, heard=True) -> None:
        """The election timeout of `node` passes, nobody has heard a leader for as long, and these
        can vote. Not `heard`: what it sends as a leader is lost."""
        for _ in range(4):
            self.time_out(node)
            for _ in range(3):
                if self.is_leader(node):
                    break
                self.tick(node)
                for voter in voters:
                    self.deliver(node, voter)
                    self.deliver(voter, node)
        assert self.is_leader(node), f"{node} was not elected"
        if heard:
            self.exchange(node, *voters)
        for voter in voters:
            self.wires[node, voter].clear()
            self.wires[voter, node].clear()

    def crash(self, node):
        self.isolate(node)
        self.up.discard(node)
        self.close(node)

    def restart(self, node) -> None:
        self.crash(node)
        self.start(node)

    def healthy(self) -> None:
        """A leads, everybody has applied everything."""
        self.connect_all()
        self.elect("A", *self.ids[1:])
        self.settle("A", *self.ids[1:])

    def nobody_leads(self) -> None:
        """It was healthy, and now A has stepped down and nobody reaches anybody."""
        self.healthy()
        for node in self.ids:
            self.isolate(node)
        self.depose("A")

    def append(self, node, *names) -> None:
        """Commands which the node has in its log, in an entry each."""
        for name in names:
            self.submit(node, name)
            self.tick(node)
