"""What the broker answers: one file a concern, each with `handlers(broker)`, a table from request code to handler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.handlers import (
    admin_access,
    admin_clients,
    admin_config,
    admin_dead_letters,
    admin_groups,
    admin_offsets,
    admin_queries,
    admin_stats,
    admin_store,
    admin_topics,
    clients,
    locks,
    offsets,
    pull,
    relay,
    reply,
    reset,
    runtime,
    send,
    sendback,
    topics,
    transaction,
)
from ariane.remoting import Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

MESSAGES = (send, pull, sendback, transaction, reply, clients, offsets, locks)
OPERATION = (
    topics,
    runtime,
    reset,
    relay,
    admin_access,
    admin_clients,
    admin_config,
    admin_dead_letters,
    admin_groups,
    admin_offsets,
    admin_queries,
    admin_stats,
    admin_store,
    admin_topics,
)


def all_handlers(broker: Broker) -> dict[int, Handler]:
    """The tables of all concerns in one; no code may be answered twice."""
    merged: dict[int, Handler] = {}
    for concern in (*MESSAGES, *OPERATION):
        table = concern.handlers(broker)
        assert not merged.keys() & table.keys()
        merged.update(table)
    return merged
