"""The table of request codes: each concern has `handlers(broker)`, its part of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.admin import access, config, groups, queries, relay, reset, runtime, stats, store
from ariane.broker.admin import clients as admin_clients
from ariane.broker.admin import offsets as admin_offsets
from ariane.broker.admin import topics as admin_topics
from ariane.broker.pull import handler as pull
from ariane.broker.retry import dead_letters_handler, send_back
from ariane.broker.send import handler as send
from ariane.broker.send import reply
from ariane.broker.tables import clients_handler, offsets_handler, queue_locks_handler, topics_handler
from ariane.broker.transactions import handler as transactions
from ariane.remoting import Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

MESSAGES = (
    send,
    pull,
    send_back,
    transactions,
    reply,
    clients_handler,
    offsets_handler,
    queue_locks_handler,
)
OPERATION = (
    topics_handler,
    runtime,
    reset,
    relay,
    access,
    admin_clients,
    config,
    dead_letters_handler,
    groups,
    admin_offsets,
    queries,
    stats,
    store,
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
