"""What a node remembers of one connection; it must not know its socket or its bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from goblin_raft.changes import Watch
from goblin_raft.pubsub import Subscriber, nobody


@dataclass(slots=True, weakref_slot=True, eq=False)
class Transaction:
    """What was sent since MULTI."""

    queued: list[Any] = field(default_factory=list)  # call.Call
    size_bytes: int = 0
    # Something was refused when it was to be queued: EXEC will refuse the whole.
    broken: bool = False


@dataclass(slots=True)
class Session:
    """Set by the connection commands, read by the frontend and by dispatch."""

    id: int
    address: str = ""
    local_address: str = ""
    fd: int = -1
    created_s: float = 0.0  # by the wall clock, to be shown only
    used_s: float = 0.0  # by the clock that times commands
    last_command: str = ""
    # Who the client is; None while it has yet to say so.
    user: bytes | None = b"default"
    name: bytes = b""
    lib_name: bytes = b""
    lib_ver: bytes = b""
    db: int = 0
    protocol: int = 2
    # Reads of this connection may be answered from this node's own state, and may be stale.
    readonly: bool = False
    # The client said goodbye: close once its replies are out.
    closing: bool = False
    # Between MULTI and EXEC.
    transaction: Transaction | None = None
    # The keys that the next EXEC depends on.
    watch: Watch | None = None
    # What this connection listens to.
    subscriber: Subscriber = field(default_factory=nobody)
