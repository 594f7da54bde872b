"""The store: commitlog, consumequeues and index in RocketMQ's own files, with dispatch, flush, recovery and retention.

`MessageStore` is the door; the other names are what goes in and out of it.
"""

from ariane.store.consumequeue import ConsumeQueue
from ariane.store.dispatch import DispatchListener
from ariane.store.flush import FlushDone
from ariane.store.log import Log
from ariane.store.options import StoreOptions
from ariane.store.results import (
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
from ariane.store.scan import Dispatched, Marks
from ariane.store.smallfile import ConfigFile
from ariane.store.store import MessageStore

__all__ = [
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
    "PutResult",
    "PutStatus",
    "QueryResult",
    "RecoveryReport",
    "StoreDamaged",
    "StoreLocked",
    "StoreOptions",
]
