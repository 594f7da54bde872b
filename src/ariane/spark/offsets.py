"""Offsets of many queues: the JSON `{"topic":{"broker":{"0":23}}}` of options and checkpoints, and its arithmetic."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from ariane.message import MessageQueue

EARLIEST: Final = -2  # in place of an offset, as in Kafka's source
LATEST: Final = -1

Offsets = dict[MessageQueue, int]


def to_json(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """The form of checkpoints and options.

    >>> to_json({MessageQueue("orders", "broker-a", 0): 23})
    {'orders': {'broker-a': {'0': 23}}}
    """
    tree: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets):
        tree.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return tree


def from_json(tree: Mapping[str, Any]) -> Offsets:
    """The reverse of `to_json`; ValueError says what is wrong."""
    return dict(_walk(tree))


def _walk(tree: Mapping[str, Any]) -> Iterator[tuple[MessageQueue, int]]:
    for topic, brokers in _items(tree, "topics"):
        for broker, queues in _items(brokers, f"brokers of {topic}"):
            for queue_id, offset in _items(queues, f"queues of {topic} on {broker}"):
                if not queue_id.isdigit() or isinstance(offset, bool) or not isinstance(offset, int) or offset < -2:
                    raise ValueError(f"{topic}, {broker}: queue {queue_id!r} has no offset {offset!r}")
                yield MessageQueue(topic, broker, int(queue_id)), offset


def _items(tree: Any, what: str) -> Any:
    if not isinstance(tree, dict):
        raise ValueError(f"{what} must be a JSON object")
    return tree.items()


def parse(text: str) -> Offsets:
    """Offsets from the text of an option."""
    try:
        return from_json(json.loads(text))
    except json.JSONDecodeError as error:
        raise ValueError(f'must be earliest, latest, or JSON as {{"topic":{{"broker":{{"0":23}}}}}}: {error}') from None


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """Ends with at most `most` messages between, shared out by how much each queue has; at least one makes progress."""
    sizes = {queue: max(offset - start.get(queue, 0), 0) for queue, offset in end.items()}
    total = sum(sizes.values())
    if total <= most:
        return end
    shares = {queue: size * most // total for queue, size in sizes.items()}
    left = most - sum(shares.values())
    for queue in sorted(sizes, key=lambda queue: sizes[queue] - shares[queue], reverse=True)[:left]:
        shares[queue] += sizes[queue] > shares[queue]
    return {queue: start.get(queue, 0) + shares[queue] if sizes[queue] else offset for queue, offset in end.items()}


def split(start: int, stop: int, pieces: int) -> list[tuple[int, int]]:
    """[start, stop) in so many nearly equal pieces, none of them empty."""
    count = max(1, min(pieces, stop - start))
    cuts = [start + (stop - start) * index // count for index in range(count + 1)]
    return list(pairwise(cuts))
