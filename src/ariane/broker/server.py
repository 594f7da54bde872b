"""The broker: store, tables and handlers behind one port."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from math import inf
from socket import SOCK_STREAM
from typing import Protocol

from ariane.broker.config import BrokerOptions
from ariane.broker.config.store_options import delay_of, store_options
from ariane.broker.delay_and_transactions import MessageKinds
from ariane.broker.handlers import all_handlers
from ariane.broker.periodic import Periodic
from ariane.broker.pull.expressions import Expressions, new_compiler, new_filters
from ariane.broker.pull.longpoll import LongPoll
from ariane.broker.registration import Registration
from ariane.broker.send.acknowledge import Acknowledge
from ariane.broker.send.flow import FlowControl
from ariane.broker.stats import BrokerStats, StoreStats
from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.notify import MemberNotices
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.persistence import Persistence
from ariane.broker.tables.pruning import Pruning
from ariane.broker.tables.queue_locks import QueueLocks
from ariane.broker.tables.queues import Queues
from ariane.broker.tables.topics import TopicTable
from ariane.env import Env, Files
from ariane.protocol.codes import RequestCode
from ariane.protocol.ids import pack_host
from ariane.protocol.units import TRANSACTION_PREPARED, Unit
from ariane.remoting import (
    Client,
    Connection,
    Gate,
    Handler,
    Limits,
    Observer,
    Server,
    SocketOptions,
    TlsClient,
    TlsServer,
    format_address,
)
from ariane.remoting.tls_properties import tls_properties
from ariane.store import MessageStore, PutResult, RecoveryReport

log = logging.getLogger("ariane.broker")

CLIENT_SCAN = 10.0  # seconds between looks for clients that fell silent
STATS_TICK = 1.0
PROTECT = 180.0
PRUNE = 60.0
NOT_ON_VIP = frozenset({RequestCode.PULL_MESSAGE})

Rewriter = Callable[[Unit], None]
Listener = Callable[[BrokerOptions], None]


class Part(Protocol):
    """Something of the broker's that runs beside its handlers."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class Broker:
    """One broker, master unless its options say otherwise.

    `before_store` and `put` are the doors for parts that add to the way of a message; `handlers` may be extended before
    `start`. Parts with a life of their own go to `parts` (anything with `start()` and `async stop()`).
    """

    def __init__(
        self,
        options: BrokerOptions,
        env: Env | None = None,
        *,
        gates: tuple[Gate, ...] = (),
        observers: tuple[Observer, ...] = (),
    ) -> None:
        options.settings.refuse_absent()
        self.options = options
        self.env = env or Env()
        self.started_ms = 0
        self.store = MessageStore(store_options(options, delay_of(options)), self.env)
        self.topics = TopicTable(options, self.env.clock)
        self.queues = Queues(self.topics, self.store)
        self.groups = GroupTable(self.env.clock, options.auto_create_group_max)
        self.offsets = OffsetTable(self.env.clock, options.consumer_offset_max)
        self.clients = ClientTable(self.env.clock)
        self.locks = QueueLocks(self.env.clock, options.rebalance_lock_max_live_time_ms, options.queue_lock_max)
        self._pruning = Pruning(
            self.topics, self.groups, self.offsets, self.clients, self.locks, self.queues, self.store
        )
        self.longpoll = LongPoll(self.store, self.env.clock)
        self.acknowledge = Acknowledge(
            self.store,
            sync_flush=options.flush_disk_type == "SYNC_FLUSH",
            sync_slave=options.broker_role == "SYNC_MASTER",
        )
        self.stats = BrokerStats(options.broker_cluster_name, detailed=options.enable_detail_stat)
        self.totals = StoreStats(self.env.clock.now_ms())
        self.expressions = new_compiler(options, self.env.clock)
        self.filters = new_filters(self)
        self.persistence = Persistence(self.env.files, self.env.clock, options, self.topics, self.groups, self.offsets)
        self.registration = Registration(self)
        self.notices = MemberNotices(self)
        self.rewriters: list[Rewriter] = []
        self.on_options: list[Listener] = []
        self.flow = FlowControl(self)
        self.parts: list[Part] = []
        tls = _client_tls(options, self.env.files)
        self.client = Client(
            clock=self.env.clock,
            tls=tls,
            connect_timeout=options.connect_timeout_millis / 1000,
            idle_timeout=options.client_channel_max_idle_time_seconds or inf,
            on_close=self.registration.lost,
            name="broker-out",
        )
        self.kinds = MessageKinds(self)
        self.parts += [self.kinds, Expressions(self)]
        self.handlers: dict[int, Handler] = all_handlers(self)
        self._gates = gates
        self._observers = observers
        self._server = self._new_server(self.handlers)
        self._vip: Server | None = None
        self._started: list[Part] = []
        self._loaded = False
        self._day = datetime.fromtimestamp(self.env.clock.now_ms() / 1000).day
        self.store_host = b""
        """Where messages of this broker say that they are stored."""

    # Life.

    async def start(self) -> None:
        """Open the store, listen, register. ListenFailed and StoreLocked say what stands in the way."""
        if self.options.ignored:
            log.warning("these options have no effect here: %s", ", ".join(self.options.ignored))
        try:
            _tell(await asyncio.to_thread(self.store.open))
            self.persistence.load()
            self._loaded = True
            self.store.start(asyncio.get_running_loop())
            self.store.add_dispatch_listener(self.longpoll.arrived)
            await self._server.start(self.options.bind_address, self.options.listen_port)
            self.store_host = await _packed(self.options.broker_ip1, self.port)
            self._start_parts()
            await self._start_vip()
            await self.registration.register()
        except BaseException:
            await self.stop()
            raise
        log.info("broker %s is ready on %s", self.options.broker_name, self.address)

    async def stop(self) -> None:
        """Unregister, answer what is under way, save every table and close the store."""
        await self.registration.unregister()
        await self._server.stop()
        if self._vip is not None:
            await self._vip.stop()
        while self._started:
            await self._started.pop().stop()
        if self._loaded:
            await self.persistence.save_all()
            self._loaded = False
        await self.client.close()
        await self.store.close()
        log.info("broker %s stopped", self.options.broker_name)

    def _start_parts(self) -> None:
        self.started_ms = self.env.clock.now_ms()
        for part in (*self._own_parts(), *self.parts):
            part.start()
            self._started.append(part)

    def _own_parts(self) -> Iterator[Part]:
        clock = self.env.clock
        yield self.longpoll.periodic()
        yield from self.persistence.periodics()
        yield self.registration.periodic()
        yield Periodic(clock, STATS_TICK, self.sample_stats, name="sample statistics")
        yield Periodic(clock, PROTECT, self.protect, name="stop groups that fell too far behind")
        yield Periodic(clock, CLIENT_SCAN, self.clients.expire, name="expire clients")
        yield Periodic(clock, PRUNE, self._pruning.run, name="remove what is unused")

    async def _start_vip(self) -> None:
        """The second port, for clients with the VIP channel on; pulls are not served there."""
        port = self.options.fast_listen_port
        if port:
            table = {code: handler for code, handler in self.handlers.items() if code not in NOT_ON_VIP}
            self._vip = self._new_server(table)
            await self._vip.start(self.options.bind_address, port)

    def _new_server(self, handlers: dict[int, Handler]) -> Server:
        options = self.options
        return Server(
            handlers,
            clock=self.env.clock,
            tls=TlsServer.from_properties(tls_properties(options.settings.values, self.env.files)),
            gates=self._gates,
            observers=self._observers,
            idle_timeout=options.server_channel_max_idle_time_seconds,
            on_close=self._connection_closed,
            after_read=self.flow.read_done,
            max_frame=options.frame_max_length,
            sockets=SocketOptions.of(options),
            limits=Limits.of(options),
            name="broker",
        )

    # What it is called.

    @property
    def port(self) -> int:
        """The port it listens on, also when any free one was asked for."""
        return self._server.port or self.options.listen_port

    @property
    def address(self) -> str:
        """The address that clients are told."""
        return format_address(self.options.broker_ip1, self.port)

    @property
    def ha_address(self) -> str:
        """The address that slaves are told."""
        return format_address(self.options.broker_ip2, self.port + 1)

    # Storing.

    def before_store(self, unit: Unit) -> None:
        """Let delay and transactions send a message another way; only messages that ask for it are shown to them."""
        properties = unit.properties
        if unit.sys_flag & TRANSACTION_PREPARED or b"DELAY\x01" in properties or b"TRAN_MSG\x01" in properties:
            for rewrite in self.rewriters:
                rewrite(unit)

    def put(self, unit: Unit) -> PutResult:
        """Store a message of the broker's own, such as a retry or a half message; the caller looks at the status."""
        self.before_store(unit)
        return self.append(unit)

    def append(self, unit: Unit) -> PutResult:
        """Store a message as it is, past delay and transactions."""
        self.stamp(unit)
        return self.store.append(unit)

    def stamp(self, unit: Unit) -> None:
        """Say where the message is stored."""
        unit.store_host = self.store_host

    # Changes at run time.

    def change_options(self, options: BrokerOptions) -> None:
        """Take other values of options that may change while running."""
        old, self.options = self.options, options
        self.store.change_options(store_options(options, delay_of(options)))
        for listener in self.on_options:
            listener(options)
        if old.broker_permission != options.broker_permission:
            self.topics.touch()
            self.registration.soon()

    def sample_stats(self) -> None:
        """Take the store's counts over, so that counting costs the hot path nothing more."""
        counted, now = self.store.stats, self.env.clock.now_ms()
        self.totals.put_count, self.totals.put_bytes = counted.put_count, counted.put_bytes
        self.totals.put_failed, self.totals.found = counted.put_failed, counted.get_found
        self.totals.missed, self.totals.transferred = counted.get_missed, counted.transferred
        self.totals.put_latency.took_no_time(self.flow.take_quick())
        self.totals.tick(now)
        self.stats.tick(now)
        if (today := datetime.fromtimestamp(now / 1000).day) != self._day:
            self._day = today
            self.totals.morning()

    def protect(self) -> None:
        """Where the options say so, stop groups that read so far behind that they hold up the others."""
        if self.options.disable_consume_if_consumer_read_slowly:
            for key, behind in self.stats.behind().items():
                if behind > self.options.consumer_fallbehind_threshold:
                    self.groups.disable(key.rpartition("@")[2])

    def _connection_closed(self, connection: Connection) -> None:
        self.clients.connection_closed(connection)
        self.longpoll.connection_closed(connection)


def _tell(found: RecoveryReport) -> None:
    """Say what the store was like; a cut was said when it was made."""
    if found.clean:
        log.info("the log goes from %d to %d, in %d queues", max(found.log_min, 0), found.log_max, found.queues)
    else:
        text = "the store was not stopped cleanly: it took %.1f s to bring %d messages into queues and index again"
        log.warning(
            text + "; the log goes from %d to %d", found.seconds, found.dispatched, found.log_min, found.log_max
        )


async def _packed(host: str, port: int) -> bytes:
    """A host as message units have it; a name is looked up, as Java does."""
    try:
        return pack_host(host, port)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
        return pack_host(str(found[0][4][0]), port)


def _client_tls(options: BrokerOptions, files: Files) -> TlsClient | None:
    if not options.use_tls:
        return None
    return TlsClient.from_properties({**tls_properties(options.settings.values, files), "tls.enable": True})
