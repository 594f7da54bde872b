"""Assembles metrics, health checks and HTTP pages of a broker."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ariane.broker.config.live import LiveOptions
from ariane.broker.metrics.consumers import ConsumerPoll
from ariane.broker.metrics.exporter import ExporterFamilies
from ariane.broker.metrics.figures import BrokerFigures
from ariane.broker.metrics.native import NativeFamilies
from ariane.broker.metrics.own import OwnFamilies
from ariane.broker.metrics.parts import add_clients, add_registration, add_store
from ariane.broker.metrics.readiness import Readiness
from ariane.broker.metrics.runtime import RuntimeFamilies
from ariane.broker.metrics.sample import Sampler
from ariane.broker.periodic import Periodic
from ariane.broker.pull.longpoll import LongPoll
from ariane.broker.registration import Registration
from ariane.broker.send.acknowledge import Acknowledge
from ariane.broker.send.flow import FlowControl
from ariane.broker.stats import BrokerStats, StoreStats
from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.progress import GroupProgress
from ariane.broker.tables.topics import TopicTable
from ariane.env import Env
from ariane.ops.endpoint import Endpoint
from ariane.ops.metrics import Registry
from ariane.ops.probes import Probes
from ariane.ops.process import LoopLag, add_process
from ariane.ops.request_log import RequestLog
from ariane.ops.servers import add_requests, add_servers
from ariane.remoting import Server
from ariane.store import MessageStore


class Monitor:
    """What a broker shows to operators: metrics, health and readiness, over HTTP when the options ask for it.

    Parts that are made later add their figures to `registry`, their checks to `readiness.more`, and the replication
    sets `slaves`.
    """

    def __init__(
        self,
        options: LiveOptions,
        env: Env,
        store: MessageStore,
        stats: BrokerStats,
        totals: StoreStats,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        clients: ClientTable,
        progress: GroupProgress,
        registration: Registration,
        flow: FlowControl,
        acknowledge: Acknowledge,
        longpoll: LongPoll,
        requests: RequestLog,
        *,
        address: Callable[[], str],
        servers: Callable[[], Mapping[str, Server]],
    ) -> None:
        current = options.current
        cluster, broker = current.broker_cluster_name, current.broker_name
        self.slaves: Callable[[], Iterable[tuple[str, int]]] = lambda: ()
        """The address of each slave, and its lag in bytes of the log."""
        self.consumers = ConsumerPoll(clients)
        self.registry = registry = Registry()
        registry.add(
            BrokerFigures(
                Sampler(topics, progress, clients, store, stats, env.clock, cluster=cluster, broker=broker),
                ExporterFamilies(
                    stats,
                    clients,
                    self.consumers,
                    cluster=cluster,
                    broker=broker,
                    address=address,
                    slaves=lambda: self.slaves(),
                ),
                RuntimeFamilies(
                    store, totals, options, address, lambda: env.files.usage(Path(current.store_path_root_dir))
                ),
                NativeFamilies(stats, topics, groups, clients, store, options, env.clock, lambda: acknowledge.waiting),
                OwnFamilies(clients, options),
            )
        )
        add_store(registry, store, options, env.files)
        add_clients(registry, clients, offsets, longpoll, flow)
        add_registration(registry, registration)
        add_servers(registry, servers)
        add_requests(registry, requests)
        lag = LoopLag()
        add_process(registry, lag)
        self.readiness = Readiness(registration, store, options)
        self.facts: dict[str, Callable[[], object]] = {
            "kind": lambda: "broker",
            "name": lambda: broker,
            "cluster": lambda: cluster,
        }
        """What /health shows."""
        self.endpoint = Endpoint(Probes(registry, self.readiness.checks, self._facts), lag, current)
        interval = current.metrics_client_poll_interval_ms / 1000
        self._poll = (
            Periodic(env.clock, interval, self.consumers.round, name="ask consumers for their figures")
            if self.endpoint.enabled and interval
            else None
        )

    def _facts(self) -> dict[str, object]:
        return {name: read() for name, read in self.facts.items()}

    async def start(self) -> None:
        """Begin to answer probes; the broker is not ready before `ready`. ListenFailed when the port is taken."""
        await self.endpoint.start()

    def ready(self) -> None:
        """The broker is up: figures may be read."""
        self.endpoint.probes.started = True
        if self._poll is not None:
            self._poll.start()

    async def stop(self) -> None:
        """Stop answering."""
        if self._poll is not None:
            await self._poll.stop()
        await self.endpoint.stop()
