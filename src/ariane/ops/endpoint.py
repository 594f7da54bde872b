"""Publishes the figures of a server as configured: over HTTP, by pushing them, or not at all."""

from typing import Protocol

from ariane.errors import ListenFailed
from ariane.ops.http import HttpServer
from ariane.ops.otlp import OtlpPush, OtlpSettings
from ariane.ops.probes import Probes
from ariane.ops.process import LoopLag


class EndpointSettings(OtlpSettings, Protocol):
    """The part of a server's configuration that is about the endpoint."""

    @property
    def metrics_exporter_type(self) -> str: ...

    @property
    def metrics_prom_exporter_host(self) -> str: ...

    @property
    def metrics_prom_exporter_port(self) -> int: ...


class Endpoint:
    """Serves the probes and pushes the figures while the server runs; measures the event loop meanwhile."""

    def __init__(self, probes: Probes, lag: LoopLag, options: EndpointSettings) -> None:
        self._listens = options.metrics_exporter_type == "PROM"
        self.push = OtlpPush(probes.registry, options, probes.facts, lambda: probes.started)
        self.enabled = self._listens or self.push.enabled
        """Whether the figures are published at all."""
        self.probes = probes
        self._lag = lag
        self._host = options.metrics_prom_exporter_host
        self._http = HttpServer(probes.pages, self._host, options.metrics_prom_exporter_port)
        self.any_port = False
        """Whether to take any free port when the configured one is taken."""

    @property
    def address(self) -> str:
        """`host:port` for a client on this machine; empty while it does not listen."""
        return self._http.address if self._http.port else ""

    async def start(self) -> None:
        """Listen and push, as configured. Until `probes.started`, /ready says that the server is starting."""
        if not self.enabled:
            return
        if self._listens:
            await self._listen()
        self._lag.start()
        self.push.start()

    async def _listen(self) -> None:
        try:
            await self._http.start()
        except ListenFailed as error:
            if not self.any_port:
                text = (
                    f"{error}; set metricsPromExporterPort and metricsPromExporterHost, or metricsExporterType=DISABLE"
                )
                raise ListenFailed(text, error.port) from None
            self._http = HttpServer(self.probes.pages, self._host, 0)
            await self._http.start()

    async def stop(self) -> None:
        """Stop listening and pushing."""
        self.probes.started = False
        await self.push.stop()
        await self._http.stop()
        await self._lag.stop()
