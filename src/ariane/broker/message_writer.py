"""Stores the broker's own messages, and redirects delayed and transactional ones."""

from collections.abc import Callable

from ariane.message import DELAY, DELIVER_TIME, TRANSACTION_PREPARED
from ariane.protocol.units import TRANSACTION_PREPARED as PREPARED
from ariane.protocol.units import Unit
from ariane.store import MessageStore, PutResult

_DELAY = f"{DELAY}\x01".encode()
_PREPARED = f"{TRANSACTION_PREPARED}\x01".encode()
_TIMER = b"TIMER_DEL"  # prefix of RocketMQ 5's properties that set a delivery time
_DELIVER_TIME = f"{DELIVER_TIME}\x01".encode()
_DETOURS = (_DELAY, _PREPARED, _TIMER, _DELIVER_TIME)


class MessageWriter:
    """Appends units, stamped with the host of this broker."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self.host = b""
        """Store host of the messages; known when the broker listens."""
        self.rewriters: list[Callable[[Unit], None]] = []
        """Called with a unit that may need a redirect; each may change its topic and queue."""

    def rewrite(self, unit: Unit) -> None:
        """Let timers, delay and transactions redirect a message; they are called only if its properties ask for it.

        ResponseError when a message asks for what is not allowed.
        """
        properties = unit.properties
        if unit.sys_flag & PREPARED or any(name in properties for name in _DETOURS):
            for rewrite in self.rewriters:
                rewrite(unit)

    def put(self, unit: Unit) -> PutResult:
        """Store a message of the broker's own, such as a retry; redirects it if needed."""
        self.rewrite(unit)
        return self.append(unit)

    def append(self, unit: Unit, *, copy: bool = True) -> PutResult:
        """Store a message unchanged, usually a copy of a stored one. The caller checks the status."""
        unit.store_host = self.host
        return self._store.append(unit, copy=copy)
