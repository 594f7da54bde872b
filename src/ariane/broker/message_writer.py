"""Storing messages of the broker's own, and the detours of delayed and transactional ones."""

from collections.abc import Callable

from ariane.message import DELAY, DELIVER_TIME, TRANSACTION_PREPARED
from ariane.protocol.units import TRANSACTION_PREPARED as PREPARED
from ariane.protocol.units import Unit
from ariane.store import MessageStore, PutResult

_DELAY = f"{DELAY}\x01".encode()
_PREPARED = f"{TRANSACTION_PREPARED}\x01".encode()
_TIMER = b"TIMER_DEL"  # how the names of RocketMQ 5 begin that ask for a time
_DELIVER_TIME = f"{DELIVER_TIME}\x01".encode()
_DETOURS = (_DELAY, _PREPARED, _TIMER, _DELIVER_TIME)


class MessageWriter:
    """Appends units, stamped with the host of this broker."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self.host = b""
        """Address and port that stored messages name; known when the broker listens."""
        self.rewriters: list[Callable[[Unit], None]] = []
        """Called with a unit that asks for a detour; each may change where it is stored."""

    def rewrite(self, unit: Unit) -> None:
        """Let timers, delay and transactions redirect a message; only one that asks for it is shown to them.

        ResponseError when a message asks for what is not allowed.
        """
        properties = unit.properties
        if unit.sys_flag & PREPARED or any(name in properties for name in _DETOURS):
            for rewrite in self.rewriters:
                rewrite(unit)

    def put(self, unit: Unit) -> PutResult:
        """Store a message of the broker's own, such as a retry, by its detour if it asks for one."""
        self.rewrite(unit)
        return self.append(unit)

    def append(self, unit: Unit, *, copy: bool = True) -> PutResult:
        """Store a message as it is, usually a copy of a stored one. The caller looks at the status."""
        unit.store_host = self.host
        return self._store.append(unit, copy=copy)
