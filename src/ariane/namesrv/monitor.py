"""What a name server shows to operators: metrics, health and readiness, over HTTP when the options ask for it."""

from collections.abc import Iterator
from functools import partial

from ariane.namesrv.config import NamesrvOptions
from ariane.namesrv.kv import KvConfig
from ariane.namesrv.routes import Routes
from ariane.ops.endpoint import Endpoint
from ariane.ops.logs import LogLevels
from ariane.ops.metrics import Registry
from ariane.ops.probes import Check, Probes
from ariane.ops.process import LoopLag, add_process
from ariane.ops.request_log import RequestLog
from ariane.ops.servers import add_requests, add_servers
from ariane.remoting import Server

_HELP = {
    "brokers": "Brokers registered, masters and slaves",
    "broker_names": "Names of registered brokers",
    "broker_names_without_master": "Names of registered brokers of which no master is registered",
    "clusters": "Clusters",
    "topics": "Topics",
}


class Monitor:
    """The figures, checks and pages of a name server; other parts add theirs to `registry`."""

    def __init__(
        self, options: NamesrvOptions, routes: Routes, requests: RequestLog, server: Server, kv: KvConfig
    ) -> None:
        self._requests = requests
        self._server = server
        self._levels = LogLevels(current=options)
        self.registry = registry = Registry()
        for name, text in _HELP.items():
            registry.gauge(f"ariane_namesrv_{name}", text, partial(_count, routes, name))
        registry.gauge("ariane_namesrv_kv_bytes", "Bytes of the KV configuration", lambda: kv.size)
        add_servers(registry, lambda: {"main": server})
        add_requests(registry, requests)
        lag = LoopLag()
        add_process(registry, lag)
        self.endpoint = Endpoint(Probes(registry, self.checks, lambda: {"kind": "name server"}), lag, options)

    def checks(self) -> Iterator[Check]:
        """A name server is ready when it listens: brokers register on their own."""
        yield Check("listening", bool(self._server.port), f"port {self._server.port}")

    def options_changed(self, options: NamesrvOptions) -> None:
        """Follow what may change at run time."""
        self._requests.slow_after_ms = options.slow_request_threshold_ms
        self._levels.set(options)

    async def start(self) -> None:
        """Begin to answer probes; not ready before `ready`. ListenFailed when the port is taken."""
        await self.endpoint.start()

    def ready(self) -> None:
        """The name server listens: figures may be read."""
        self.endpoint.probes.started = True

    async def stop(self) -> None:
        """Stop answering."""
        await self.endpoint.stop()


def _count(routes: Routes, name: str) -> int:
    return routes.counts()[name]
