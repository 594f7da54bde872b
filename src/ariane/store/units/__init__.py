"""Message units in the log: `reading` checks them, `writing` makes their bytes, `marks` finds tags and keys in them.

`hashes` are the hashes of tags and keys that queues and index hold. The format itself is `ariane.protocol.units`.
"""

from ariane.store.units.marks import Marks, value_of
from ariane.store.units.reading import Dispatched, read_unit

__all__ = ["Dispatched", "Marks", "read_unit", "value_of"]
