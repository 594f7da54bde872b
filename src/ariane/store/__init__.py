"""The store: commitlog, consumequeues and index in RocketMQ's own files, with dispatch, flush, recovery and retention.

`MessageStore` is the door; the other names are what goes in and out of it.
"""

from ariane.store.config_file import ConfigFile
from ariane.store.counters import PutCount
from ariane.store.dispatch import DispatchListener
from ariane.store.log.flush import FlushDone
from ariane.store.log.log import Log
from ariane.store.options import StoreOptions
from ariane.store.queue.consumequeue import ConsumeQueue
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
