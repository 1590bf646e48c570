"""goblin_raft: a replicated idempotency store; this file holds the version and imports nothing."""

__version__ = "0.1.0"
