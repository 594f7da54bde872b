"""What the broker answers: one file a concern, each with `handlers(broker)`, a table from request code to handler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.handlers import clients, locks, offsets, pull, runtime, send, topics
from ariane.remoting import Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

CONCERNS = (send, pull, clients, offsets, locks, topics, runtime)


def all_handlers(broker: Broker) -> dict[int, Handler]:
    """The tables of all concerns in one; no code may be answered twice."""
    merged: dict[int, Handler] = {}
    for concern in CONCERNS:
        table = concern.handlers(broker)
        assert not merged.keys() & table.keys()
        merged.update(table)
    return merged
