"""The broker: makes its parts, joins them, starts and stops them."""

import asyncio
import logging
from collections.abc import Iterator
from math import inf
from pathlib import Path
from socket import SOCK_STREAM
from typing import Protocol

from ariane.access.signer import Signer
from ariane.broker.acl.access import BrokerAccess
from ariane.broker.acl.handler import AclHandler
from ariane.broker.admin.clients import AdminClientsHandler
from ariane.broker.admin.config import AdminConfigHandler
from ariane.broker.admin.groups import AdminGroupsHandler
from ariane.broker.admin.offsets import AdminOffsetsHandler
from ariane.broker.admin.queries import AdminQueriesHandler
from ariane.broker.admin.relay import RelayHandler
from ariane.broker.admin.reset import ResetHandler
from ariane.broker.admin.runtime import RuntimeInfoHandler
from ariane.broker.admin.stats import AdminStatsHandler
from ariane.broker.admin.store import AdminStoreHandler
from ariane.broker.admin.topics import AdminTopicsHandler
from ariane.broker.changes import CHANGES
from ariane.broker.config import BrokerOptions
from ariane.broker.config.ha_options import ha_options
from ariane.broker.config.live import LiveOptions
from ariane.broker.config.store_options import delay_of, store_options
from ariane.broker.delay_and_transactions import DelayAndTransactions
from ariane.broker.filters.handler import FiltersHandler
from ariane.broker.filters.modules import FilterModules
from ariane.broker.filters.servers import FilterServers
from ariane.broker.handlers import request_table
from ariane.broker.ledger import LedgerGroup, ledger_files, refuse_ledger, slave_id
from ariane.broker.message_writer import MessageWriter
from ariane.broker.metrics.monitor import Monitor
from ariane.broker.metrics.parts import add_filters, add_timers
from ariane.broker.metrics.replication import add_ledger, add_master, add_role, add_slaves
from ariane.broker.periodic import Periodic
from ariane.broker.pull.expressions import Expressions, new_compiler, new_filters
from ariane.broker.pull.handler import PullHandler
from ariane.broker.pull.longpoll import LongPoll, LongPollLimits
from ariane.broker.pull.subscriptions import Subscriptions
from ariane.broker.pull.target import PullTargets
from ariane.broker.read_cycle import ReadCycle
from ariane.broker.registration import Registration
from ariane.broker.replication.copies import LogFromMaster, LogToSlaves, status_rows
from ariane.broker.replication.filters_and_rules import FiltersAndRules
from ariane.broker.replication.handover import Handover, Leading
from ariane.broker.replication.metadata import MetadataCopy
from ariane.broker.replication.peers import Peers
from ariane.broker.replication.role_record import RoleRecord
from ariane.broker.replication.withheld_writes import WithheldWrites
from ariane.broker.retry.dead_letters import DeadLettersHandler
from ariane.broker.retry.send_back import SendBackHandler
from ariane.broker.role import Role, RoleKind
from ariane.broker.send.acknowledge import Acknowledge
from ariane.broker.send.answer import PutFailures
from ariane.broker.send.flow import FlowControl
from ariane.broker.send.handler import SendHandler
from ariane.broker.send.reply import ReplyHandler
from ariane.broker.send.target import SendTargets
from ariane.broker.stats import BrokerStats, StoreStats
from ariane.broker.stats.sampling import Sampling, SlowReaders
from ariane.broker.stats.timed_puts import TimedPuts
from ariane.broker.tables.clients import ClientLimits, ClientTable
from ariane.broker.tables.clients_handler import ClientsHandler
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.notify import MemberNotices
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.offsets_handler import OffsetsHandler
from ariane.broker.tables.persistence import Persistence
from ariane.broker.tables.progress import GroupProgress
from ariane.broker.tables.pruning import Pruning
from ariane.broker.tables.queue_locks import QueueLocks, QueueLocksHandler
from ariane.broker.tables.queues import Queues
from ariane.broker.tables.topics import TopicTable
from ariane.broker.tables.topics_handler import TopicsHandler
from ariane.broker.transactions.handler import TransactionHandler
from ariane.env import Env, Files
from ariane.ha import Epochs, claimed_epochs
from ariane.ops.logs import LogLevels
from ariane.ops.request_log import RequestLog
from ariane.ops.servers import add_access
from ariane.protocol.codes import RequestCode
from ariane.protocol.ids import pack_host
from ariane.remoting import (
    Client,
    Connection,
    Gate,
    Handler,
    Limits,
    Observer,
    Refusals,
    Server,
    SocketOptions,
    TlsClient,
    TlsServer,
    format_address,
)
from ariane.remoting.admission import Admission
from ariane.remoting.tls_properties import tls_properties
from ariane.store import MessageStore, RecoveryReport
from ariane.store.log import CommitLog

log = logging.getLogger("ariane.broker")

CLIENT_SCAN = 10.0  # seconds between scans for clients without a heartbeat
SLOW_READERS = 180.0
PRUNE = 60.0
NEWER_MASTER = 30.0
SENDS = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})
# Frequent requests: their latency is in the statistics.
NOT_TIMED = SENDS | {RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET}
NOT_ON_VIP = frozenset({RequestCode.PULL_MESSAGE})


class Part(Protocol):
    """Work that runs beside the handlers."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class Broker:
    """One broker: the one place where its parts are made and joined.

    The order of construction is the order of dependence: each part receives the parts that it uses. Parts that run
    beside the handlers go to `parts`.
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
        self.env = env = env or Env()
        clock, files, random = env.clock, env.files, env.random
        self.live = live = LiveOptions(options)
        self.started_ms = 0
        if not options.dledger_enable:
            refuse_ledger(options, env)
        ledger = ledger_files(options, env) if options.dledger_enable else None
        make_log = CommitLog if ledger is None else ledger.make_log
        self.store = store = MessageStore(store_options(options, delay_of(options)), env, make_log)
        # A DLedger member decides itself when its store accepts messages.
        self.role = role = Role(
            _first_role(options),
            options.broker_id if ledger is None else slave_id(options),
            store=store if ledger is None else None,
        )
        self.writer = writer = MessageWriter(store)
        self.topics = topics = TopicTable(options, clock)
        self.queues = queues = Queues(topics, store)
        self.refusals = refusals = Refusals()
        self.groups = groups = GroupTable(
            clock, options.auto_create_group_max, options.auto_create_group_per_account_max
        )
        self.offsets = offsets = OffsetTable(
            clock, options.consumer_offset_max, options.consumer_offset_per_account_max, refusals
        )
        self.clients = clients = ClientTable(
            clock, ClientLimits(options.client_max, options.client_per_account_max, options.client_group_max)
        )
        self.progress = progress = GroupProgress(topics, offsets, clients, store)
        self.requests = requests = RequestLog(clock, options.slow_request_threshold_ms)
        self.locks = locks = QueueLocks(
            clock, options.rebalance_lock_max_live_time_ms, options.queue_lock_max, refusals
        )
        self.persistence = persistence = Persistence(files, clock, options, topics, groups, offsets)
        self.stats = stats = BrokerStats(options.broker_cluster_name, detailed=options.enable_detail_stat)
        self._pruning = Pruning(topics, groups, offsets, clients, locks, queues, store, stats)
        self.totals = totals = StoreStats(clock.now_ms())
        self.notices = MemberNotices(clients, groups, live)
        self.client = client = Client(
            clock=clock,
            hooks=_signer(options, env),
            tls=_client_tls(options, files),
            connect_timeout=options.connect_timeout_millis / 1000,
            idle_timeout=options.client_channel_max_idle_time_seconds or inf,
            on_close=lambda connection: self.registration.lost(connection),
            name="broker-out",
        )
        self.registration = Registration(
            client, live, topics, role, clock, address=lambda: self.address, ha_address=lambda: self.ha_address
        )
        self.acknowledge = acknowledge = Acknowledge(
            store,
            sync_flush=options.flush_disk_type == "SYNC_FLUSH" and ledger is None,
        )
        self.group: LedgerGroup | None = None
        if ledger is not None:
            forwards = Client(clock=clock, tls=_client_tls(options, files), name="broker-forward")
            self.group = LedgerGroup(
                options, ledger, store, role, topics, groups, offsets, persistence, client, forwards, env
            )
            acknowledge.promise_copies(self.group)
            acknowledge.always = True
        self.cycle = cycle = ReadCycle(
            store,
            clock,
            TimedPuts(totals.put_latency, requests),
            busy_after=options.os_page_cache_busy_time_out_mills / 1000,
            promises=acknowledge.waits,
        )
        self.flow = flow = FlowControl(cycle, acknowledge, live)
        self.sampling = Sampling(store, cycle, totals, stats, clock)
        self.slow_readers = SlowReaders(stats, groups, live)
        self.failures = failures = PutFailures(live, files)
        self.detours = detours = DelayAndTransactions(
            store, writer, topics, offsets, clients, persistence, stats, live, clock
        )
        self.peers = peers = Peers(client, options.broker_name, lambda: self.registration.name_servers)
        self.epochs = epochs = Epochs(files, Path(options.store_path_root_dir) / "config", random)
        self.to_slaves = LogToSlaves(role, store, epochs, acknowledge, live, clock)
        self.from_master = from_master = LogFromMaster(store, epochs, peers, self.registration, live, clock)
        self.metadata = MetadataCopy(
            peers,
            self.registration,
            topics,
            groups,
            offsets,
            detours.progress,
            persistence,
            store,
            clock,
            master_address=lambda: from_master.master_address,
        )
        if self.group is not None:
            self.group.tables.delays = detours.progress
            self.metadata.covered = lambda: self.group is not None and self.group.tables.covers
        record = RoleRecord(files, options)
        self.to_slaves.master.on_slaves.append(record.is_followed)
        role.on_master(WithheldWrites(live, role, record, self.to_slaves.master, topics, self.registration, clock))
        self.handover = Handover(
            role,
            record,
            epochs,
            peers,
            store,
            offsets,
            self.registration,
            address=lambda: self.address,
            master_address=lambda: from_master.master_address,
            epochs_of=lambda address: claimed_epochs(address, ha_options(live.current)),
            copying=lambda: None if from_master.slave is None else from_master.slave.state,
            elected=ledger is not None,
        )
        self.registration.on_newer_master = self.handover.newer_master
        self.expressions = compiler = new_compiler(options, clock, refusals)
        self.filters = filters = new_filters(options, compiler)
        self.longpoll = longpoll = LongPoll(
            store,
            clock,
            LongPollLimits(options.long_poll_max, options.long_poll_per_connection_max, options.long_poll_bytes_max),
        )
        self.access = BrokerAccess(options, env, store.message_at, offsets.topics_of) if options.acl_enable else None
        """Access control; None when it is off."""
        if self.access is not None:
            detours.may_write = self.access.may_write
            self.access.follow(longpoll.check_again)
        send_targets = SendTargets(topics, persistence.topics, groups, store, stats, live, role, failures)
        pull_targets = PullTargets(topics, groups, store, stats, live)
        self.modules = modules = FilterModules(persistence, files, clock, live)
        modules.on_change.append(pull_targets.forget)
        self.filter_servers = filter_servers = FilterServers(clock)
        filter_servers.on_change.append(self.registration.soon)
        self.registration.filter_servers = filter_servers.addresses
        subscriptions = Subscriptions(clients, filters, compiler, modules, live, clock)
        self.handlers: dict[int, Handler] = request_table(
            SendHandler(
                store,
                cycle,
                flow,
                acknowledge,
                send_targets,
                writer,
                topics,
                persistence.topics,
                groups,
                stats,
                failures,
                live,
                clock,
                random,
            ),
            ReplyHandler(clients, send_targets, writer, stats, live, clock, random),
            PullHandler(store, pull_targets, subscriptions, longpoll, offsets, writer, stats, role, live, clock),
            SendBackHandler(
                topics,
                persistence.topics,
                groups,
                store,
                detours.delay,
                writer,
                acknowledge,
                stats,
                live,
                random,
            ),
            TransactionHandler(
                detours.transactions, detours, detours.postpone, store, writer, acknowledge, stats, failures, role
            ),
            ClientsHandler(clients, groups, topics, compiler, live, refusals),
            OffsetsHandler(offsets, queues, groups, store, live, persistence.offsets),
            QueueLocksHandler(locks, queues, groups, live),
            TopicsHandler(topics, persistence.topics, self.registration, store, role, live),
            DeadLettersHandler(topics, store, writer, stats, random),
            AdminTopicsHandler(topics, persistence.topics, offsets, clients, stats, role, live, drop=self._drop_topic),
            AdminGroupsHandler(groups, persistence.groups, offsets, persistence.offsets, stats, role, live),
            AdminClientsHandler(clients),
            AdminOffsetsHandler(offsets, persistence.offsets, topics, clients, detours.delay),
            AdminConfigHandler(live, role, files, clock),
            AdminQueriesHandler(store, live),
            RelayHandler(clients, store, live),
            ResetHandler(topics, groups, offsets, persistence.offsets, clients, store, live),
            RuntimeInfoHandler(
                store,
                totals,
                detours.delay,
                detours.timers,
                clients,
                live,
                files,
                clock,
                replication=status_rows(
                    role, self.to_slaves, from_master, None if self.group is None else self.group.status_rows
                ),
            ),
            AdminStatsHandler(
                topics, groups, offsets, progress, stats, store, live, clock, address=lambda: self.address
            ),
            AdminStoreHandler(
                store,
                topics,
                clients,
                filters,
                drop_topics=self._drop_topics,
                keep_queues=ledger is not None,
            ),
            AclHandler(None if self.access is None else self.access.rules, live, lambda: self.address),
            self.handover,
            FiltersHandler(
                modules,
                filter_servers,
                role,
                live,
                clock,
                (lambda _: False) if self.access is None else self.access.is_white,
            ),
        )
        if self.group is not None:
            for code in SENDS:
                self.handlers[code] = self.group.forwarding.around(self.handlers[code])
        self.handlers = requests.watched(self.handlers, changing=CHANGES, unwatched=NOT_TIMED)
        self.monitor = Monitor(
            live,
            env,
            store,
            stats,
            totals,
            topics,
            groups,
            offsets,
            clients,
            progress,
            self.registration,
            flow,
            acknowledge,
            longpoll,
            requests,
            address=lambda: self.address,
            servers=self._servers,
        )
        self.monitor.registry.refusals(refusals.counts)
        add_role(self.monitor, role)
        if self.group is not None:
            add_ledger(self.monitor, self.group.member)
        else:
            add_slaves(self.monitor, self.to_slaves.master)
            add_master(self.monitor, role, lambda: None if from_master.slave is None else from_master.slave.state)
        add_timers(self.monitor.registry, detours.timers)
        add_filters(self.monitor.registry, subscriptions.failures)
        if self.access is not None:
            add_access(self.monitor.registry, self.access.rules.counters)
        expressions = Expressions(filters, clients, persistence, clock)
        rules = None if self.access is None else self.access.rules
        copies = FiltersAndRules(expressions, rules, self.to_slaves.master, live, lambda: from_master.slave)
        self.metadata.more.append(copies.copy)
        self.parts: list[Part] = [expressions, modules]
        if ledger is None:  # a DLedger group copies its log itself
            role.on_master(Leading(role, epochs, store, topics, offsets, self.metadata))
            role.on_master(self.to_slaves)
            role.on_slave(from_master)
            from_master.on_connected.append(self.metadata.soon)
        role.on_master(detours)
        role.on_slave(self.metadata)
        role.on_change(self._role_changed)
        self._limits = Limits.of(options)
        self._admission = Admission.of(self._limits)
        self._gates = (*gates, *(() if self.access is None else (self.access.gate,)))
        self._observers = observers
        self._server = self._new_server(self.handlers)
        self._vip: Server | None = None
        self._started: list[Part] = []
        self._loaded = False
        self._permission = options.broker_permission
        self._levels = LogLevels(current=options)
        live.on_change(self._options_changed)

    @property
    def options(self) -> BrokerOptions:
        """The options as they are now."""
        return self.live.current

    # Start and stop.

    async def start(self) -> None:
        """Open the store, listen, register. ListenFailed or StoreLocked when that is not possible."""
        if self.options.ignored:
            log.warning("these options have no effect here: %s", ", ".join(self.options.ignored))
        try:
            await self.monitor.start()
            found = await asyncio.to_thread(self.store.open)
            _log_recovery(found)
            self.persistence.load()
            if not found.clean and self.group is None and (moved := self.offsets.limit_to(self.store.max_offset)):
                log.warning("%d committed offsets were beyond the end of their queue and are moved back to it", moved)
                await self.persistence.save_offsets()  # before new messages take their offsets
            self._loaded = True
            self.store.start(asyncio.get_running_loop())
            if self.group is None:
                await self.handover.before_start()
            self._role_changed()
            self.store.add_dispatch_listener(self.longpoll.arrived, self.longpoll.waits)
            self.store.retention.keepers.append(self.detours.timers.keep)
            await self._server.start(self.options.bind_address, self.options.listen_port)
            self.writer.host = await _packed(self.options.broker_ip1, self.port)
            self.detours.load()
            self._start_parts()
            await self.role.start()
            await self._start_vip()
            if self.group is not None:
                await self.group.start(self.address)
            await self.registration.register()
            self.monitor.ready()
        except BaseException:
            await self.stop()
            raise
        log.info("broker %s is ready on %s", self.options.broker_name, self.address)

    async def stop(self) -> None:
        """Unregister, finish running requests, save every table and close the store."""
        await self.monitor.stop()
        await self.handover.stop()
        await self.registration.unregister()
        await self._server.stop()
        if self._vip is not None:
            await self._vip.stop()
        if self.group is not None:
            await self.group.stop()
        await self.role.stop()
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
        if self.access is not None:
            yield self.access.periodic()
        yield Periodic(clock, NEWER_MASTER, self.handover.look_for_newer, name="look for a newer master")
        yield self.sampling.periodic()
        yield Periodic(clock, SLOW_READERS, self.slow_readers.disable, name="disable groups that lag too far")
        yield Periodic(clock, CLIENT_SCAN, self.clients.expire, name="expire clients")
        yield self.filter_servers.periodic()
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
            cycle=self.cycle,
            max_frame=options.frame_max_length,
            sockets=SocketOptions.of(options),
            limits=self._limits,
            admission=self._admission,
            refusals=self.refusals,
            name="broker",
        )

    def _servers(self) -> dict[str, Server]:
        return {"main": self._server} if self._vip is None else {"main": self._server, "vip": self._vip}

    # Addresses.

    @property
    def port(self) -> int:
        """The port that the broker listens on, also when listenPort is 0."""
        return self._server.port or self.options.listen_port

    @property
    def address(self) -> str:
        """The address that is advertised to clients."""
        return format_address(self.options.broker_ip1, self.port)

    @property
    def ha_address(self) -> str:
        """The address that is advertised to slaves."""
        return format_address(self.options.broker_ip2, self.to_slaves.master.port or self.port + 1)

    # Changes at run time.

    def change_options(self, options: BrokerOptions) -> None:
        """Replace the options by others that differ only in what may change at run time."""
        self.live.change(options)

    def _options_changed(self, options: BrokerOptions) -> None:
        self.store.change_options(store_options(options, delay_of(options)))
        self.cycle.busy_after = options.os_page_cache_busy_time_out_mills / 1000
        self.requests.slow_after_ms = options.slow_request_threshold_ms
        self._levels.set(options)
        if self._permission != options.broker_permission:
            self._permission = options.broker_permission
            self.topics.touch()
            self.registration.soon()

    def _role_changed(self) -> None:
        self.store.puller.correct_offsets = self.role.is_master or self.options.offset_check_in_slave

    def _drop_topic(self, topic: str) -> None:
        """Delete the queues of a topic and the offsets in it, in a DLedger group on every member."""
        if self.group is not None:
            self.group.tables.drop_topic(topic)
        else:
            self.store.delete_topic(topic)
            self.offsets.remove_topic(topic)

    def _drop_topics(self, unused: set[str]) -> None:
        """Delete the queues of topics that are in no table."""
        if self.group is None:
            self.store.delete_topics(unused)
        else:
            for topic in unused:
                self.group.tables.drop_topic(topic)

    def _connection_closed(self, connection: Connection) -> None:
        self.clients.connection_closed(connection)
        self.filter_servers.connection_closed(connection)
        self.longpoll.connection_closed(connection)


def _first_role(options: BrokerOptions) -> RoleKind:
    """The role at start. A DLedger member is a slave until its group has elected."""
    return RoleKind.SLAVE if options.broker_id < 0 else RoleKind(options.broker_role)


def _log_recovery(found: RecoveryReport) -> None:
    """Log the recovery result. A truncation was logged when it happened."""
    if found.clean:
        log.info("the log goes from %d to %d, in %d queues", max(found.log_min, 0), found.log_max, found.queues)
    else:
        text = "the store was not stopped cleanly: recovery took %.1f s and dispatched %d messages again"
        log.warning(
            text + "; the log goes from %d to %d", found.seconds, found.dispatched, found.log_min, found.log_max
        )


async def _packed(host: str, port: int) -> bytes:
    """A host in the form of message units; a name is resolved, as Java does."""
    try:
        return pack_host(host, port)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
        return pack_host(str(found[0][4][0]), port)


def _signer(options: BrokerOptions, env: Env) -> tuple[Signer, ...]:
    """Signs requests to name servers and to the master when the broker has keys; Apache's broker never signs."""
    if options.broker_access_key is None or options.broker_secret_key is None:
        return ()
    return (Signer(options.broker_access_key, options.broker_secret_key, clock=env.clock),)


def _client_tls(options: BrokerOptions, files: Files) -> TlsClient | None:
    if not options.use_tls:
        return None
    tls = TlsClient.from_properties({**tls_properties(options.settings.values, files), "tls.enable": True})
    if tls is not None and not tls.verifies:
        log.warning(
            "useTLS encrypts what this broker sends to other servers, but accepts any certificate of theirs: "
            "set tls.test.mode.enable=false, tls.client.authServer=true and tls.client.trustCertPath"
        )
    return tls
