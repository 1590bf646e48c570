"""Who listens to what on this node, and who gets a message; sockets and the log are unknown here.

A message reaches a node as an entry of the log (PUBLISH) or is made by its own application of the
log (a change of a key); either way each node passes it to its own subscribers, and keeps nothing.
So every node sees the same messages in the same order, between the same changes of keys, and who
is not connected, or does not read, misses them: as in Redis.
"""

from __future__ import annotations

from collections.abc import Callable

from goblin_raft.glob import Matcher, matcher
from goblin_raft.reply import Push

# What channels of changes of keys begin with.
OF_KEYS = b"__key"
GLOB_SIGNS = b"*?[\\"


class Hub:
    """All subscriptions of a node."""

    def __init__(self) -> None:
        # Subscribers in the order in which they came: dicts, because sets have none.
        self.channels: dict[bytes, dict[Subscriber, None]] = {}
        self.patterns: dict[bytes, tuple[Matcher, dict[Subscriber, None]]] = {}
        # Whether anybody may listen to changes of keys: without, they are not even looked for.
        self.wants_changes = False

    def publish(self, channel: bytes, message: bytes) -> int:
        """Pass a message on; to how many."""
        count = 0
        if channel in self.channels:
            push = Push([b"message", channel, message])
            for subscriber in list(self.channels[channel]):
                subscriber.deliver(push)
                count += 1
        for pattern, (matches, subscribers) in list(self.patterns.items()):
            if matches(channel):
                push = Push([b"pmessage", pattern, channel, message])
                for subscriber in list(subscribers):
                    subscriber.deliver(push)
                    count += 1
        return count

    def look_for_changes(self) -> None:
        """Work `wants_changes` out anew."""
        self.wants_changes = any(channel.startswith(OF_KEYS) for channel in self.channels) or any(
            _may_match_keys(pattern) for pattern in self.patterns
        )


def _may_match_keys(pattern: bytes) -> bool:
    plain = next((at for at, sign in enumerate(pattern) if sign in GLOB_SIGNS), len(pattern))
    return pattern[:plain].startswith(OF_KEYS) or OF_KEYS.startswith(pattern[:plain])


class Subscriber:
    """One connection's subscriptions; `deliver` is how messages reach it."""

    __slots__ = ("channels", "deliver", "hub", "patterns")

    def __init__(self, hub: Hub, deliver: Callable[[Push], None]) -> None:
        self.hub = hub
        self.deliver = deliver
        self.channels: dict[bytes, None] = {}
        self.patterns: dict[bytes, None] = {}

    @property
    def count(self) -> int:
        """How many channels and patterns."""
        return len(self.channels) + len(self.patterns)

    def subscribe(self, channel: bytes) -> int:
        """Listen to a channel; the count afterwards."""
        if channel not in self.channels:
            self.channels[channel] = None
            self.hub.channels.setdefault(channel, {})[self] = None
            self.hub.wants_changes = self.hub.wants_changes or channel.startswith(OF_KEYS)
        return self.count

    def unsubscribe(self, channel: bytes) -> int:
        """Listen to it no more; the count afterwards."""
        if channel in self.channels:
            del self.channels[channel]
            subscribers = self.hub.channels[channel]
            del subscribers[self]
            if not subscribers:
                del self.hub.channels[channel]
                if channel.startswith(OF_KEYS):
                    self.hub.look_for_changes()
        return self.count

    def psubscribe(self, pattern: bytes) -> int:
        """Listen to all channels that match; the count afterwards."""
        if pattern not in self.patterns:
            self.patterns[pattern] = None
            of_hub = self.hub.patterns
            of_hub.setdefault(pattern, (matcher(pattern), {}))[1][self] = None
            self.hub.wants_changes = self.hub.wants_changes or _may_match_keys(pattern)
        return self.count

    def punsubscribe(self, pattern: bytes) -> int:
        """Listen to them no more; the count afterwards."""
        if pattern in self.patterns:
            del self.patterns[pattern]
            _, subscribers = self.hub.patterns[pattern]
            del subscribers[self]
            if not subscribers:
                del self.hub.patterns[pattern]
                if _may_match_keys(pattern):
                    self.hub.look_for_changes()
        return self.count

    def leave(self) -> None:
        """Listen to nothing any more."""
        for channel in list(self.channels):
            self.unsubscribe(channel)
        for pattern in list(self.patterns):
            self.punsubscribe(pattern)


def nobody() -> Subscriber:
    """A subscriber that is in no node's hub, and hears nothing."""
    return Subscriber(Hub(), lambda push: None)
