"""The filter server: its port, its registration with the broker, its figures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from typing import Any

from ariane.access.signer import Signer
from ariane.env import Env
from ariane.errors import ArianeError, ResponseError
from ariane.filter.wasm import digest_of
from ariane.filterserver.config import FilterServerOptions
from ariane.filterserver.filters import GroupFilters
from ariane.filterserver.forwarding import Forwarding
from ariane.ops.endpoint import Endpoint
from ariane.ops.metrics import Registry
from ariane.ops.probes import Check, Probes
from ariane.ops.process import LoopLag, add_process
from ariane.ops.servers import add_servers
from ariane.protocol.bodies import FilterList, FilterRecord
from ariane.protocol.codes import GET_FILTER, RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import FilterOfGroupRequest, RegisterFilterServerRequest, RegisterFilterServerResponse
from ariane.remoting import (
    Client,
    Connection,
    Limits,
    Refusals,
    Server,
    SocketOptions,
    TlsClient,
    TlsServer,
    format_address,
)
from ariane.remoting.tls_properties import tls_properties

log = logging.getLogger("ariane.filterserver")

PERIOD = 10.0  # seconds between registrations; a broker forgets one that is silent for 30
RETRY = 1.0  # seconds after a registration that failed, and between those that pulls ask for
TIMEOUT = 10.0


class FilterServer:
    """Consumers pull through it; it registers with one broker, which name servers tell to consumers."""

    def __init__(self, options: FilterServerOptions, env: Env | None = None) -> None:
        self.options = options
        env = env or Env()
        self._clock = env.clock
        properties = tls_properties(options.settings.values, env.files)
        tls = TlsClient.from_properties(properties) if options.settings["tls.enable"] else None
        signers: tuple[Signer, ...] = ()
        if options.broker_access_key is not None and options.broker_secret_key is not None:
            signers = (Signer(options.broker_access_key, options.broker_secret_key, clock=env.clock),)
        self._client = Client(clock=env.clock, hooks=signers, tls=tls, name="filter server", on_close=self._lost)
        self.filters = GroupFilters(options, env.clock, self._fetch)
        self.forwarding = Forwarding(options.connect_which_broker, self.filters, env.clock, tls, self._refresh)
        self.refusals = Refusals()
        self._server = Server(
            {RequestCode.PULL_MESSAGE: self.forwarding.pull},
            clock=env.clock,
            tls=TlsServer.from_properties(properties),
            idle_timeout=options.server_channel_max_idle_time_seconds,
            on_close=self._closed,
            max_frame=options.frame_max_length,
            sockets=SocketOptions.of(options),
            limits=Limits.of(options),
            refusals=self.refusals,
            name="filterserver",
        )
        self.registry = registry = Registry()
        registry.counters(
            "ariane_filter_failures_total",
            "Pulls cut short because a group's filter failed, or had used up its time in this second (time)",
            "reason",
            lambda: dict(self.filters.failures),
        )
        registry.counters(
            "ariane_filterserver_messages_total",
            "Messages that came from the broker, and those that went on to consumers",
            "direction",
            lambda: {"in": self.forwarding.pulled, "out": self.forwarding.delivered},
        )
        registry.gauge(
            "ariane_filterserver_registered",
            "1 while the broker knows this filter server",
            lambda: int(self.forwarding.registered),
        )
        registry.refusals(self.refusals.counts)
        add_servers(registry, lambda: {"main": self._server})
        lag = LoopLag()
        add_process(registry, lag)
        self.endpoint = Endpoint(Probes(registry, self._checks, lambda: {"kind": "filter server"}), lag, options)
        self._registering: asyncio.Task[bool] | None = None
        self._last = -PERIOD
        self._now = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused = ""

    @property
    def port(self) -> int:
        """The port that it listens on, also when listenPort is 0."""
        return self._server.port or self.options.listen_port

    @property
    def address(self) -> str:
        """The address that consumers are told."""
        return format_address(self.options.filter_server_ip, self.port)

    async def start(self) -> None:
        """Listen and register. A broker that is not there yet, or refuses, is tried again each second."""
        await self.endpoint.start()
        try:
            await self._server.start(self.options.bind_address, self.options.listen_port)
        except BaseException:
            await self.stop()
            raise
        self.endpoint.probes.started = True
        await self._register()
        self._keep(self._regularly())

    async def stop(self) -> None:
        """Stop listening; the broker notices that the connection is closed."""
        await self.endpoint.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop()
        await self.forwarding.close()
        await self._client.close()
        await self.filters.runtime.close()

    def _checks(self) -> Iterator[Check]:
        registered = self.forwarding.registered
        yield Check("registered", registered, self.options.connect_which_broker if registered else self._refused)

    async def _regularly(self) -> None:
        while True:
            self._now.clear()
            try:
                async with asyncio.timeout(PERIOD if self.forwarding.registered else RETRY):
                    await self._now.wait()
            except TimeoutError:
                pass
            await self._register()

    async def _refresh(self) -> bool:
        """Register again to learn of new modules; whether this server is registered. Callers share one in a second."""
        began = self._last
        wait = began + RETRY - self._clock.monotonic()
        if wait > 0:
            await self._clock.sleep(wait)
        if self._last == began or self._registering is not None:
            await self._register()
        return self.forwarding.registered

    async def _register(self) -> bool:
        if self._registering is None:
            self._registering = asyncio.get_running_loop().create_task(self._register_once(), name="register")
            self._registering.add_done_callback(lambda _: setattr(self, "_registering", None))
        return await asyncio.shield(self._registering)

    async def _register_once(self) -> bool:
        self._last = self._clock.monotonic()
        header = RegisterFilterServerRequest(self.address)
        try:
            answer = await self._ask(Command(RequestCode.REGISTER_FILTER_SERVER, header.fields()))
            broker = RegisterFilterServerResponse.parse(answer.fields)
            records = FilterList.decode(answer.body).filters if answer.body else []
        except ArianeError as error:
            if str(error) != self._refused:
                log.warning("not registered with the broker %s: %s", self.options.connect_which_broker, error)
            self._refused, self.forwarding.registered = str(error), False
            return False
        if not self.forwarding.registered:
            log.info("registered with broker %s as %s", broker.broker_name, self.address)
        self._refused, self.forwarding.registered = "", True
        self.filters.take_records(records)
        return True

    async def _fetch(self, record: FilterRecord) -> bytes:
        header = FilterOfGroupRequest(record.consumer_group, record.topic)
        try:
            module = (await self._ask(Command(GET_FILTER, header.fields()))).body
        except ArianeError as error:
            raise OSError(f"the broker does not give it: {error}") from None
        if digest_of(module) != record.sha256:
            raise OSError("the broker gave other bytes: it was replaced")
        return module

    async def _ask(self, command: Command) -> Command:
        response = await self._client.request(self.options.connect_which_broker, command, TIMEOUT)
        if response.code != 0:
            raise ResponseError(response.code, response.remark or "no reason given")
        return response

    def _lost(self, _: Connection) -> None:
        """The broker is gone, or restarts: register again when it is back."""
        self.forwarding.registered = False
        self._now.set()

    def _closed(self, connection: Connection) -> None:
        self._keep(self.forwarding.connection_closed(connection))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
