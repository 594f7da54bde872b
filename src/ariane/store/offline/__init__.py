"""Tools for store folders: inspect, verify and dump one, rebuild its queues and index, back it up and restore it.

Nothing here changes the log of a store; only `rebuild` and `restore` write to one at all. `back_up` is made for stores
that a broker has open.
"""

from ariane.store.offline.backup import Backup, BackupError, back_up, read_manifest, restore
from ariane.store.offline.dump import Wanted, dump
from ariane.store.offline.inspect import Inspection, inspect
from ariane.store.offline.reading import Damage, Progress, StoredLog
from ariane.store.offline.rebuild import Rebuilt, rebuild
from ariane.store.offline.verify import Findings, verify

__all__ = [
    "Backup",
    "BackupError",
    "Damage",
    "Findings",
    "Inspection",
    "Progress",
    "Rebuilt",
    "StoredLog",
    "Wanted",
    "back_up",
    "dump",
    "inspect",
    "read_manifest",
    "rebuild",
    "restore",
    "verify",
]
