"""Opens a store: `load` finds its files, `recovery` checks the log and rebuilds the rest, `queue_order` the offsets."""

from ariane.store.recovery.recovery import Recovery, find_unit

__all__ = ["Recovery", "find_unit"]
