"""Replication of the log between a master and its slaves, as RocketMQ's classic HA does it.

`HaMaster` listens and sends the log to slaves, each served by a `sender`; `Replicated` reports when enough of them
have a message. `HaSlave` copies a master's log into its own store. `Epochs` records which master wrote which part of
the log, so that two Ariane nodes find the common end of their logs; by `claim` a master checks that another broker was
really promoted in its place. `tables` copies what RocketMQ has no request for. The bytes are in `protocol/ha.py`.

The role of a broker, and everything but the log (topics, offsets, registration), belongs to `broker/replication`.
"""

from ariane.ha.claim import ClaimNotProved, claimed_epochs, goes_before
from ariane.ha.epochs import Epochs, common_end
from ariane.ha.master import HaMaster
from ariane.ha.options import HaOptions
from ariane.ha.replicated import Replicated
from ariane.ha.sender import SlaveProgress
from ariane.ha.slave import HaSlave
from ariane.ha.state import SlavePhase, SlaveState
from ariane.ha.tables import CopiedTables, TablesNotCopied, copied_tables, may_seal

__all__ = [
    "ClaimNotProved",
    "CopiedTables",
    "Epochs",
    "HaMaster",
    "HaOptions",
    "HaSlave",
    "Replicated",
    "SlavePhase",
    "SlaveProgress",
    "SlaveState",
    "TablesNotCopied",
    "claimed_epochs",
    "common_end",
    "copied_tables",
    "goes_before",
    "may_seal",
]
