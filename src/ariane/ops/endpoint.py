"""The HTTP endpoint of a server, as its options ask for it."""

from typing import Protocol

from ariane.errors import ListenFailed
from ariane.ops.http import HttpServer
from ariane.ops.probes import Probes
from ariane.ops.process import LoopLag


class EndpointSettings(Protocol):
    """The part of a server's configuration that is about the endpoint."""

    @property
    def metrics_exporter_type(self) -> str: ...

    @property
    def metrics_prom_exporter_host(self) -> str: ...

    @property
    def metrics_prom_exporter_port(self) -> int: ...


class Endpoint:
    """Serves the probes while the server runs, if the options switch it on; measures the event loop meanwhile."""

    def __init__(self, probes: Probes, lag: LoopLag, options: EndpointSettings) -> None:
        self.enabled = options.metrics_exporter_type == "PROM"
        self.probes = probes
        self._lag = lag
        self._http = HttpServer(probes.pages, options.metrics_prom_exporter_host, options.metrics_prom_exporter_port)

    @property
    def address(self) -> str:
        """`host:port` for a client on this machine; empty while it does not listen."""
        return self._http.address if self._http.port else ""

    async def start(self) -> None:
        """Listen, if switched on. Until `probes.started`, /ready says that the server is starting."""
        if not self.enabled:
            return
        try:
            await self._http.start()
        except ListenFailed as error:
            text = f"{error}; set metricsPromExporterPort and metricsPromExporterHost, or metricsExporterType=DISABLE"
            raise ListenFailed(text, error.port) from None
        self._lag.start()

    async def stop(self) -> None:
        """Stop listening."""
        self.probes.started = False
        await self._http.stop()
        await self._lag.stop()
