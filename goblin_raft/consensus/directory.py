"""The directory of one node: whose it is, that one process uses it, and whether it has served yet.

Knows the names of the files in it, and nothing of what they hold.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.snapshots import sync_directory

FORMAT_VERSION = 3
DATABASE = "raft.db"
IDENTITY = "identity.json"
IDENTITY_DRAFT = "identity.draft"
LOCK = "lock"
MARK = "mark"


def damaged(path: str, what: str) -> str:
    """The sentence for the operator; docs/operations.md has the long form."""
    return (
        f"{path} is damaged ({' '.join(what.split())}); nothing is served from it: move the"
        " directory away and start this node with an empty one, the others fill it up"
    )


def lock(directory: Path) -> Any:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock_file = open(directory / LOCK, "a+", encoding="ascii")  # noqa: SIM115 held while open
    except OSError as error:
        msg = f"cannot use the data directory {directory}: {error.strerror}"
        raise StartRefused(msg) from error
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock_file.close()
        msg = f"the data directory {directory} is in use by another process"
        raise StartRefused(msg) from error
    return lock_file


def _identity(*, node_id: str, cluster_name: str) -> dict[str, Any]:
    return {"format": FORMAT_VERSION, "cluster": cluster_name, "node": node_id}


def check_identity(directory: Path, *, node_id: str, cluster_name: str) -> bool:
    """Whether the directory is new; StartRefused if it is somebody else's, or half of one."""
    path, database = directory / IDENTITY, directory / DATABASE
    mine = _identity(node_id=node_id, cluster_name=cluster_name)
    if not path.exists():
        if database.exists() and not (directory / IDENTITY_DRAFT).exists():
            msg = f"the data directory {directory} has a log but no {IDENTITY}: it is damaged"
            raise StartRefused(msg)
        return True
    try:
        found = json.loads(path.read_text("utf-8"))
        theirs = {key: found[key] for key in mine}
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"{path} is damaged ({error}); the directory is left as it is"
        raise StartRefused(msg) from error
    if theirs["format"] != FORMAT_VERSION:
        msg = f"{directory} has format {theirs['format']}, this version reads {FORMAT_VERSION}"
        raise StartRefused(msg)
    if theirs != mine:
        msg = (
            f"the data directory {directory} belongs to node {theirs['node']} of cluster"
            f" {theirs['cluster']}, not to node {node_id} of cluster {cluster_name}"
        )
        raise StartRefused(msg)
    if not database.exists():
        raise StartRefused(damaged(str(database), "it is missing"))
    return False


def begin_directory(directory: Path, *, node_id: str, cluster_name: str) -> None:
    """A new directory: a draft of its identity says that nothing in it has served yet, so a start
    that was cut short can begin again, while a log that lost its identity is never overwritten."""
    for suffix in ("", "-wal", "-shm"):
        (directory / (DATABASE + suffix)).unlink(missing_ok=True)
    with open(directory / IDENTITY_DRAFT, "w", encoding="utf-8") as file:
        json.dump(_identity(node_id=node_id, cluster_name=cluster_name), file)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(directory)


def finish_directory(directory: Path) -> None:
    """The log holds its first entry: from now on the directory is this node's."""
    (directory / IDENTITY_DRAFT).rename(directory / IDENTITY)
    sync_directory(directory)
