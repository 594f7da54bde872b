"""The role of a broker: master or slave, which may change while the broker runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from ariane.store import MessageStore

log = logging.getLogger("ariane.broker")

MASTER_ID: Final = 0


class RoleKind(Enum):
    """RocketMQ's names of the roles."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class RolePart(Protocol):
    """Work that runs in one role only. It may be started and stopped many times."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Role:
    """The current role of the broker. Handlers read `is_master`; registration sends `broker_id` and `epoch`.

    A change is `become_master` or `become_slave`; two never overlap. Parts added by `on_master` run while the broker is
    a master (delivery of delayed messages, checks of half messages), those of `on_slave` while it is a slave. Writes
    are refused by the store itself from the start of a change to slave until a change to master is complete.

    >>> import asyncio
    >>> role = Role(RoleKind.SLAVE, 1)
    >>> role.on_change(lambda: print(role))
    >>> asyncio.run(role.become_master(7))
    ASYNC_MASTER, id 0, epoch 7
    """

    def __init__(self, kind: RoleKind, broker_id: int, epoch: int = 0, store: MessageStore | None = None) -> None:
        self.kind = kind
        self.broker_id = MASTER_ID if kind is not RoleKind.SLAVE else broker_id
        self.epoch = epoch
        """Number of the master's term: each promotion has a higher one (DLedger: the term). 0: unknown."""
        self.is_master = kind is not RoleKind.SLAVE
        self.writable = False
        """Whether messages are accepted: a master that has taken over completely and was not replaced."""
        self._store = store
        self._listeners: list[Callable[[], None]] = []
        self._on_master: list[RolePart] = []
        self._on_slave: list[RolePart] = []
        self._running: list[RolePart] = []
        self._started = False
        self._changing = asyncio.Lock()
        self._refuse_writes()

    def __str__(self) -> str:
        return f"{self.kind.value}, id {self.broker_id}, epoch {self.epoch}"

    @property
    def is_slave(self) -> bool:
        """Whether the broker copies a master."""
        return not self.is_master

    # What follows the role.

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a listener after each change, before the parts of the new role start."""
        self._listeners.append(listener)

    def on_master(self, part: RolePart) -> None:
        """Run a part while the broker is a master."""
        self._on_master.append(part)

    def on_slave(self, part: RolePart) -> None:
        """Run a part while the broker is a slave."""
        self._on_slave.append(part)

    # Start, change, stop.

    async def start(self) -> None:
        """Start the parts of the role that the broker has, and accept writes if it is a master."""
        async with self._changing:
            self._started = True
            await self._take_up()

    async def stop(self) -> None:
        """Stop the parts, which may still write their progress, then refuse writes."""
        async with self._changing:
            await self._stop_parts()
            self._refuse_writes()
            self._started = False

    async def become_master(self, epoch: int, kind: RoleKind = RoleKind.ASYNC_MASTER) -> None:
        """Take the master's role: stop the slave's parts, change, start the master's parts, accept writes."""
        assert kind is not RoleKind.SLAVE
        await self._become(kind, MASTER_ID, epoch)

    async def become_slave(self, broker_id: int, epoch: int) -> None:
        """Take a slave's role: refuse writes at once, stop the master's parts, change, start the slave's parts."""
        self._refuse_writes()
        await self._become(RoleKind.SLAVE, broker_id, epoch)

    async def _become(self, kind: RoleKind, broker_id: int, epoch: int) -> None:
        async with self._changing:
            if (kind, broker_id, epoch) == (self.kind, self.broker_id, self.epoch) and self.writable == self.is_master:
                return
            await self._lay_down()
            self.kind, self.broker_id, self.epoch = kind, broker_id, epoch
            self.is_master = kind is not RoleKind.SLAVE
            if self._started:
                log.warning("the role is now %s", self)
            for listener in self._listeners:
                listener()
            if self._started:
                await self._take_up()

    async def _lay_down(self) -> None:
        self._refuse_writes()
        await self._stop_parts()

    async def _stop_parts(self) -> None:
        while self._running:
            await self._running.pop().stop()

    async def _take_up(self) -> None:
        for part in self._on_master if self.is_master else self._on_slave:
            self._running.append(part)
            await part.start()
        if self.is_master:
            self.writable = True
            if self._store is not None:
                self._store.health.accepts_messages(True)

    def _refuse_writes(self) -> None:
        self.writable = False
        if self._store is not None:
            self._store.health.accepts_messages(False)
