"""The store: commitlog, consumequeues and index in RocketMQ's own files, with dispatch, flush, recovery and retention.

`MessageStore` is the entry point. `log/` is the commitlog and its flush, `queue/` the consume queues, `index/` the
index of keys, `units/` reads and writes message units, `recovery/` opens a store, `offline/` holds the
tools for a closed one.
Appending: `appender`, `batches`; reading: `reader`, `pull`, `time_search`; between them `dispatch`. In the background:
`queue_flush` with `checkpoint`, and `retention`.
"""

from ariane.store.config_file import ConfigFile
from ariane.store.dispatch import DispatchListener
from ariane.store.log.flush import FlushDone
from ariane.store.log.log import Log
from ariane.store.options import StoreOptions
from ariane.store.queue.consumequeue import ConsumeQueue, PutCount
from ariane.store.results import (
    STORED,
    GetResult,
    GetStatus,
    MessageFilter,
    PutResult,
    PutStatus,
    QueryResult,
    RecoveryReport,
    StoreDamaged,
    StoreLocked,
)
from ariane.store.store import MessageStore
from ariane.store.units.marks import Marks
from ariane.store.units.reading import Dispatched

__all__ = [
    "STORED",
    "ConfigFile",
    "ConsumeQueue",
    "DispatchListener",
    "Dispatched",
    "FlushDone",
    "GetResult",
    "GetStatus",
    "Log",
    "Marks",
    "MessageFilter",
    "MessageStore",
    "PutCount",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "RecoveryReport",
    "StoreDamaged",
    "StoreLocked",
    "StoreOptions",
]
