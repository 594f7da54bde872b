"""Tools for a store that no broker has open: inspect, verify and dump it, rebuild queues and index.

Nothing here changes the log; only `rebuild` writes at all.
"""

from ariane.store.offline.dump import Wanted, dump
from ariane.store.offline.inspect import Inspection, inspect
from ariane.store.offline.reading import Progress, StoredLog
from ariane.store.offline.rebuild import Rebuilt, rebuild
from ariane.store.offline.verify import Findings, verify

__all__ = [
    "Findings",
    "Inspection",
    "Progress",
    "Rebuilt",
    "StoredLog",
    "Wanted",
    "dump",
    "inspect",
    "rebuild",
    "verify",
]
