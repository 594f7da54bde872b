"""Copies the log between the brokers of one name: `LogToSlaves` runs on a master, `LogFromMaster` on a slave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ariane.broker.config.ha_options import ha_options
from ariane.broker.config.live import LiveOptions
from ariane.broker.registration import Registration
from ariane.broker.replication.peers import Peers
from ariane.broker.replication.waiting import happens
from ariane.broker.role import Role, RoleKind
from ariane.broker.send.acknowledge import Acknowledge
from ariane.env import Clock
from ariane.errors import ArianeError
from ariane.ha import Epochs, HaMaster, HaSlave, Replicated, SlaveState
from ariane.remoting import format_address
from ariane.store import MessageStore

log = logging.getLogger("ariane.broker.replication")

ASK_AGAIN = 3.0  # seconds after which a slave without its master asks the name servers again


class LogToSlaves:
    """Runs on a master: listens for slaves and sends them the log; sends to a SYNC_MASTER wait for their copies."""

    def __init__(
        self,
        role: Role,
        store: MessageStore,
        epochs: Epochs,
        acknowledge: Acknowledge,
        options: LiveOptions,
        clock: Clock,
    ) -> None:
        self._role = role
        self._store = store
        self._acknowledge = acknowledge
        self._options = options
        self._clock = clock
        self.master = HaMaster(store, ha_options(options.current), clock, epochs)
        self._replicated: Replicated | None = None

    async def start(self) -> None:
        """Listen on haListenPort."""
        options = self._options.current
        self.master.waits = self._role.kind is RoleKind.SYNC_MASTER
        await self.master.start(options.bind_address, options.ha_listen_port)
        if self.master.waits:
            self._replicated = Replicated(self._store, self.master, self.master.options, self._clock)
            self._acknowledge.promise_copies(self._replicated)

    async def stop(self) -> None:
        """Drop the slaves; sends that wait for a copy are answered with FLUSH_SLAVE_TIMEOUT."""
        if self._replicated is not None:
            self._acknowledge.promise_copies(None)
            self._replicated.close()
            self._replicated = None
        await self.master.stop()

    def rows(self) -> dict[str, str]:
        """The rows of brokerStatus: where slaves connect, and one for each slave."""
        own = {"haServerAddr": format_address(self._options.current.broker_ip2, self.master.port)}
        return own | {
            f"haSlave_{slave.address}": (
                f"acknowledged {slave.acknowledged}, {slave.lag} bytes behind, "
                f"{'learner' if slave.learner else 'in sync' if slave.in_sync else 'not in sync'}, "
                f"{'flushed' if slave.flushed else 'received'}"
            )
            for slave in self.master.slaves
        }


class LogFromMaster:
    """Runs on a slave: copies the log of the master that haMasterAddress names, or else the name servers."""

    def __init__(
        self,
        store: MessageStore,
        epochs: Epochs,
        peers: Peers,
        registration: Registration,
        options: LiveOptions,
        clock: Clock,
    ) -> None:
        self._store = store
        self._epochs = epochs
        self._peers = peers
        self._registration = registration
        self._options = options
        self._clock = clock
        self._following: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self.slave: HaSlave | None = None
        self.on_connected: list[Callable[[], None]] = []
        """Called when this slave begins to receive its master's log."""
        registration.on_master.append(self._news.set)

    @property
    def ha_address(self) -> str | None:
        """The address to copy from."""
        return self._options.current.ha_master_address or self._registration.master_ha_address

    @property
    def master_address(self) -> str | None:
        """The master's address for requests; without a name server that of haMasterAddress, one port below."""
        if self._registration.master_address:
            return self._registration.master_address
        host, _, port = (self._options.current.ha_master_address or "").rpartition(":")
        return format_address(host.strip("[]"), int(port) - 1) if host else None

    async def start(self) -> None:
        """Follow the master as soon as it is known."""
        self._following = asyncio.get_running_loop().create_task(self._follow(), name="follow the master")

    async def stop(self) -> None:
        """Stop following the master."""
        task, self._following = self._following, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        slave, self.slave = self.slave, None
        if slave is not None:
            await slave.stop()

    async def _follow(self) -> None:
        while True:
            self._news.clear()
            address = self.ha_address
            if address is not None and self.slave is None:
                self.slave = HaSlave(
                    self._store,
                    ha_options(self._options.current),
                    self._clock,
                    address,
                    self._epochs,
                    master_range=self._master_range,
                )
                self.slave.on_change.append(self._changed)
                self.slave.start()
            elif address is not None and self.slave is not None and self.slave.state.master != address:
                await self.slave.follow(address)
            if not await happens(self._news, ASK_AGAIN, self._clock) and not self._is_connected:
                self._registration.soon()

    @property
    def _is_connected(self) -> bool:
        return self.slave is not None and self.slave.state.connected

    def _changed(self, state: SlaveState) -> None:
        if state.connected:
            for listener in self.on_connected:
                listener()

    async def _master_range(self) -> tuple[int, int]:
        """First offset and end of an Apache master's log."""
        master = self.master_address
        if master is None:
            raise OSError("the master's address for requests is not known yet")
        try:
            state = await self._peers.state(master)
        except ArianeError as error:
            raise OSError(str(error)) from None
        return state.log_min, state.log_max

    def rows(self) -> dict[str, str]:
        """The rows of brokerStatus: the master that this slave follows, and the state of the copy."""
        if self.slave is None:
            return {"haState": "waiting for the address of the master"}
        state = self.slave.state
        rows = {
            "haState": state.phase.value,
            "haMaster": state.master,
            "haOffset": str(state.offset),
            "haReported": str(state.reported),
            "haMasterOffset": str(state.master_end),
        }
        return rows | ({"haReason": state.reason} if state.reason else {})


def status_rows(
    role: Role,
    to_slaves: LogToSlaves,
    from_master: LogFromMaster,
    ledger: Callable[[], dict[str, str]] | None = None,
) -> Callable[[], dict[str, str]]:
    """The rows that replication adds to brokerStatus, with those of a DLedger member. Apache's broker shows none."""

    def rows() -> dict[str, str]:
        own = {
            "brokerRole": role.kind.value,
            "brokerId": str(role.broker_id),
            "brokerEpoch": str(role.epoch),
            "brokerWritable": str(role.writable).lower(),
        }
        copies = to_slaves.rows() if role.is_master else from_master.rows()
        return own | copies | ({} if ledger is None else ledger())

    return rows
