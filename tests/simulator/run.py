"""One plan from beginning to verdict."""

from __future__ import annotations

import gc
import logging
import traceback
from collections import defaultdict
from dataclasses import dataclass, field, replace

from tests.simulator.clients import KINDS, REFUSED, Clients
from tests.simulator.cluster import START_S, Cluster
from tests.simulator.faults import Faults
from tests.simulator.invariants import Violation
from tests.simulator.linearizable import OK, Operation, explain
from tests.simulator.plan import LEADER, Plan, make_plan

# A healthy cluster agrees within so much time, on whatever went before.
SETTLE_MS = 15_000
LOOK_EVERY_MS = 40


@dataclass
class Result:
    """How a run ended; `rule` is None when every promise was kept."""

    seed: int
    nodes: int
    rule: str | None = None
    text: str = ""
    acknowledged: int = 0
    operations: int = 0
    turns: int = 0
    entries: int = 0
    undecided: int = 0  # keys whose history was too tangled to search
    trace: list[str] = field(default_factory=list)


def run_seed(seed: int, nodes: int = 3) -> Result:
    """A seed's plan."""
    return run_plan(make_plan(seed, nodes))


def run_plan(plan: Plan, *, trace: bool = False) -> Result:
    """Carry it out. The same plan gives the same result, every time."""
    result = Result(plan.seed, plan.nodes)
    collects = gc.isenabled()
    gc.disable()  # a run leaves little behind, and is over soon
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    cluster = None
    try:
        cluster = Cluster(plan, trace=trace)
        clients = Clients(cluster)
        _carry_out(cluster, clients)
        if plan.seed % 8 == 2:
            _come_back(cluster)
        _judge(cluster, clients, result)
    except Violation as violation:
        result.rule, result.text = violation.rule, violation.text
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        result.rule = type(error).__name__
        result.text = f"{error} ({place.filename.rpartition('/')[2]}:{place.lineno})"
    finally:
        if cluster is not None:
            if result.rule:
                cluster.say(f"{result.rule}: {result.text}")
            result.trace = cluster.trace or []
            result.turns = cluster.turns
            result.entries = len(cluster.invariants.committed)
            cluster.close()
        logging.disable(level)
        if collects:
            gc.enable()
    return result


def _carry_out(cluster: Cluster, clients: Clients) -> None:
    faults = Faults(cluster)
    for event in cluster.plan.events:
        happen = clients.ask if event.kind in KINDS else faults.happen
        if event.at_ms < cluster.plan.duration_ms:
            cluster.after(event.at_ms / 1000, happen, event)
    cluster.run_until(START_S + cluster.plan.duration_ms / 1000)
    faults.heal()
    for _ in range(SETTLE_MS // LOOK_EVERY_MS):
        cluster.run_until(cluster.now_s + LOOK_EVERY_MS / 1000)
        if _settled(cluster):
            return
    raise Violation("stuck", f"no agreement within {SETTLE_MS / 1000:.0f} healthy seconds")


def _come_back(cluster: Cluster) -> None:
    """A follower that was away, or only does not hear the leader, must not cost it its place."""
    leader = cluster.nodes[cluster.name_of(LEADER)]
    term, away_s = leader.replica.node.term, 2.5 * cluster.settings.election_max_ms / 1000
    name = next(name for name in cluster.names if name != leader.name)
    pairs = [pair for pair in cluster.links if name in pair]
    if cluster.plan.seed % 16 == 2:
        pairs = [(leader.name, name)]
    for pair in pairs:
        cluster.links[pair].blocked = 1
        cluster.cut(*pair)
    cluster.run_until(cluster.now_s + away_s)
    for pair in pairs:
        cluster.links[pair].blocked = 0
        cluster.connect(*pair)
    for _ in range(100):
        cluster.run_until(cluster.now_s + LOOK_EVERY_MS / 1000)
        if _settled(cluster):
            break
    if not leader.replica.node.is_leader or leader.replica.node.term != term:
        raise Violation("healthy leader deposed", f"by {name}, which came back")


def _settled(cluster: Cluster) -> bool:
    if any(not node.up for node in cluster.nodes.values()):
        return False
    replicas = [node.replica for node in cluster.nodes.values()]
    last = replicas[0].log[-1][1]
    if any(r.log[-1][1] != last or r.node._last_applied != last for r in replicas):
        return False
    leaders = [r.node for r in replicas if r.node.is_leader]
    if len(leaders) != 1 or len({r.node._term for r in replicas}) != 1:
        return False
    # Until the leader knows all for voters, one that was wiped is not filled up yet, and the
    # cluster may need each of the others.
    if not all(each.is_voter for each in leaders[0].progress.values()):
        return False
    return not any(
        r.proposals.pending or r.proposals.waiting or r.barrier.asked or r.barrier.waiting
        for r in replicas
    )


def _judge(cluster: Cluster, clients: Clients, result: Result) -> None:
    """What can be said only at the end."""
    history = clients.history
    result.acknowledged = clients.acknowledged
    result.operations = len(history)
    if clients.answered_twice is not None:
        raise Violation("answered twice", str(clients.answered_twice))
    _replicas_equal(cluster)
    executed = cluster.invariants.model.executed
    for operation in history:
        unique = _unique(operation)
        if operation.outcome == REFUSED and unique in executed:
            raise Violation("error truth", f"refused, and executed: {operation}")
        if operation.outcome == OK and unique is not None and unique not in executed:
            raise Violation("acknowledged is lost", str(operation))
    by_key: dict[bytes, list[Operation]] = defaultdict(list)
    for operation in history:
        if operation.outcome != REFUSED and operation.kind != "tally":
            by_key[operation.key].append(operation)
    for key, operations in sorted(by_key.items()):
        if cluster.invariants.clock_may_leap_ms:
            operations = [_without_lease(operation) for operation in operations]
        found = explain(operations)
        result.undecided += found is None
        if found is False:
            told = "\n".join(map(str, sorted(operations, key=lambda o: o.start_ms)))
            raise Violation("linearizable", f"no order explains what {key!r} answered:\n{told}")


def _unique(operation: Operation) -> bytes | None:
    """What only this operation writes, if it writes anything."""
    match operation.kind:
        case "set" | "claim":
            return operation.key + operation.arguments[0]
        case "cas":
            return operation.key + operation.arguments[1]
        case "tally":
            return operation.key + b"0"
    return None


def _without_lease(operation: Operation) -> Operation:
    """All nodes were down while a wall clock jumped: leases may end early (docs/guarantees.md)."""
    if operation.kind not in ("claim", "renew"):
        return operation
    return replace(operation, arguments=(operation.arguments[0], float("-inf")))


def _replicas_equal(cluster: Cluster) -> None:
    machines = {node.name: node.replica.machine for node in cluster.nodes.values()}
    states = {name: machine.state() for name, machine in machines.items()}
    first = next(iter(states.values()))
    for name, state in states.items():
        if state != first:
            raise Violation("replicas equal", f"{name}'s state is not that of the others")
    model = cluster.invariants.model
    space = next(iter(machines.values())).keyspaces[0]
    held = {
        key: (value, space.deadlines.get(key, float("inf")))
        for key, value in space.values.items()
        if model.now_ms < space.deadlines.get(key, float("inf"))
    }
    alive = model.alive()
    if held != alive:
        wrong = sorted(key for key in held.keys() | alive if held.get(key) != alive.get(key))
        raise Violation("state", f"{wrong[:3]} are not what the log says")
    for key, (value, _) in held.items():
        if key[:1] == b"t" and value != b"1":
            raise Violation("exactly once", f"{key!r} was executed twice")
