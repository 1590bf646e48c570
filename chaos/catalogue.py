"""All workloads and all faults by name; knows nothing of how any of them works."""

from __future__ import annotations

from collections.abc import Callable

from chaos.nemesis_links import KINDS, Lossy, Partition, Slow
from chaos.nemesis_machine import Clock, DiskFail, DiskFull, DiskSlow, Snapshots
from chaos.nemesis_process import Corrupt, Kill, KillOf, Pause, Restart
from chaos.stage import Nemesis
from chaos.workload import Workload
from chaos.workload_claims import Claims, Lease
from chaos.workload_transactions import Transactions
from chaos.workload_values import Counter, ReadYourWrites, Register

WORKLOADS: dict[str, Callable[[], Workload]] = {
    "claims": Claims,
    "lease": Lease,
    "register": Register,
    "counter": Counter,
    "transactions": Transactions,
    "read-your-writes": ReadYourWrites,
}

NEMESES: dict[str, Callable[[], Nemesis]] = {
    "kill": Kill,
    "kill-leader": lambda: KillOf("leader"),
    "kill-follower": lambda: KillOf("follower"),
    "kill-all": lambda: KillOf("all"),
    "pause": Pause,
    "restart": Restart,
    "partition": Partition,
    **{f"partition-{kind}": (lambda kind=kind: Partition(kind)) for kind in KINDS},
    "slow": Slow,
    "lossy": Lossy,
    "clock": Clock,
    "disk-slow": DiskSlow,
    "disk-fail": DiskFail,
    "disk-full": DiskFull,
    "snapshot": Snapshots,
    "corrupt": Corrupt,
}
