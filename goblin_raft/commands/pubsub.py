"""SUBSCRIBE, PUBLISH and their kin; how messages travel is not known here."""

from __future__ import annotations

from goblin_raft.arguments import optional, repeated, string
from goblin_raft.glob import matcher
from goblin_raft.keyspace import Databases, Instant
from goblin_raft.node_view import NodeView
from goblin_raft.reply import Push, Reply, Several
from goblin_raft.spec import Family

family = Family("pubsub")


@family.node("SUBSCRIBE", repeated(string("channel")), in_transactions=False)
def subscribe(node: NodeView, channels: list[bytes]) -> Reply:
    """Listen to channels; one answer for each.

    A message that is published on any node reaches the subscribers of all nodes that can hear the
    leader. Whoever is not connected at that time, or too slow, misses it.
    """
    subscriber = node.session.subscriber
    return Several([Push([b"subscribe", each, subscriber.subscribe(each)]) for each in channels])


@family.node("PSUBSCRIBE", repeated(string("pattern")), in_transactions=False)
def psubscribe(node: NodeView, patterns: list[bytes]) -> Reply:
    """Listen to all channels whose names match a pattern, such as `news.*`."""
    subscriber = node.session.subscriber
    return Several([Push([b"psubscribe", each, subscriber.psubscribe(each)]) for each in patterns])


@family.node("UNSUBSCRIBE", repeated(string("channel"), least=0), in_transactions=False)
def unsubscribe(node: NodeView, channels: list[bytes]) -> Reply:
    """Listen to these channels no more, or to none of them all."""
    subscriber = node.session.subscriber
    chosen = channels or list(subscriber.channels)
    if not chosen:
        return Push([b"unsubscribe", None, subscriber.count])
    return Several([Push([b"unsubscribe", each, subscriber.unsubscribe(each)]) for each in chosen])


@family.node("PUNSUBSCRIBE", repeated(string("pattern"), least=0), in_transactions=False)
def punsubscribe(node: NodeView, patterns: list[bytes]) -> Reply:
    """Listen to these patterns no more, or to none of them all."""
    subscriber = node.session.subscriber
    chosen = patterns or list(subscriber.patterns)
    if not chosen:
        return Push([b"punsubscribe", None, subscriber.count])
    return Several(
        [Push([b"punsubscribe", each, subscriber.punsubscribe(each)]) for each in chosen]
    )


@family.write("PUBLISH", string("channel"), string("message"), whole=True)
def publish(databases: Databases, at: Instant, channel: bytes, message: bytes) -> Reply:
    """Send a message to all who listen to the channel, on every node.

    Goes through the log, so all see it in the same place among other messages and changes. Replies
    how many got it on the node that was asked; there may be others elsewhere.
    """
    return databases.hub.publish(channel, message)


family.container("PUBSUB", "Tell who listens, on the node that was asked.")


@family.node("PUBSUB CHANNELS", optional(string("pattern")))
def pubsub_channels(node: NodeView, pattern: bytes | None) -> Reply:
    """List the channels that somebody listens to on this node, patterns not counted."""
    channels = node.session.subscriber.hub.channels
    matches = matcher(b"*" if pattern is None else pattern)
    return [channel for channel in channels if matches(channel)]


@family.node("PUBSUB NUMSUB", repeated(string("channel"), least=0))
def pubsub_numsub(node: NodeView, channels: list[bytes]) -> Reply:
    """Count the subscribers of channels on this node, patterns not counted."""
    of_hub = node.session.subscriber.hub.channels
    return [item for each in channels for item in (each, len(of_hub.get(each, ())))]


@family.node("PUBSUB NUMPAT")
def pubsub_numpat(node: NodeView) -> Reply:
    """Count the patterns that somebody on this node listens to."""
    return len(node.session.subscriber.hub.patterns)
