"""The log: `log` is the interface that the store uses, `commitlog` the one of mapped files (`log_file`).

`framing` is the layout of records, `allocate` makes the next file ahead of need, `flush` makes the log durable.

Another log is a `CommitLog` with another `Framing`, or a class of its own. A subclass of `Log` is compiled with the
store (the list in setup.py): compiled classes have no interpreted subclasses.
"""

from ariane.store.log.commitlog import CommitLog
from ariane.store.log.flush import FlushDone, Flusher
from ariane.store.log.framing import Framing, PlainFraming
from ariane.store.log.log import Log, LogFactory
from ariane.store.log.log_file import LogFile, LogSegment

__all__ = [
    "CommitLog",
    "FlushDone",
    "Flusher",
    "Framing",
    "Log",
    "LogFactory",
    "LogFile",
    "LogSegment",
    "PlainFraming",
]
