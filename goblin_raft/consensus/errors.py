"""The two ways in which a node gives up: before it starts, and when going on would be wrong."""

from __future__ import annotations


class StartRefused(Exception):
    """The node must not start; the text is one sentence for the operator. Nothing was touched."""


class Fatal(Exception):
    """Going on could break a promise; the process must end at once, having answered nobody."""
