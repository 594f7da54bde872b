"""The log: `log` is the interface that the store uses, `commitlog` the one of mapped files.

`allocate` makes the next file ahead of need, `flush` makes the log durable.
"""

from ariane.store.log.commitlog import CommitLog
from ariane.store.log.flush import FlushDone, Flusher
from ariane.store.log.log import Log

__all__ = ["CommitLog", "FlushDone", "Flusher", "Log"]
