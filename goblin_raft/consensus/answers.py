"""Calling back those who wait; what goes wrong on their side stays on their side.

An exception of a callback must not reach the turn: the entry is applied whatever happens to its
answer, and the next one's answer is still owed (docs/consensus.md, D5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


def call_back(callback: Callable[[T], None], value: T) -> None:
    """Call it; an exception is a bug of that one connection, and is logged."""
    try:
        callback(value)
    except Exception:
        logger.exception("answer.bug")
