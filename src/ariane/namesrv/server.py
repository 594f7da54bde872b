"""The name server: its tables, its port, and the scan for silent brokers."""

import asyncio
import logging
from pathlib import Path

from ariane.access.rules import WATCH_SECONDS, LiveRules
from ariane.env import Env
from ariane.namesrv.acl import NamesrvAccess
from ariane.namesrv.config import NamesrvOptions
from ariane.namesrv.handlers import Handlers
from ariane.namesrv.kv import KvConfig
from ariane.namesrv.live_config import LiveConfig
from ariane.namesrv.monitor import Monitor
from ariane.namesrv.routes import Routes
from ariane.ops.request_log import RequestLog
from ariane.ops.servers import add_access
from ariane.protocol.codes import RequestCode
from ariane.remoting import Connection, Limits, Refusals, Server, SocketOptions, TlsServer, format_address
from ariane.remoting.limited_log import LimitedLog
from ariane.remoting.tls_properties import tls_properties

log = logging.getLogger("ariane.namesrv")

CHANGES = frozenset(  # each is logged with its sender
    {
        RequestCode.PUT_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.UPDATE_NAMESRV_CONFIG,
    }
)
ANY_ADDRESS = ("", "0.0.0.0", "::")


class NameServer:
    """A name server.

    >>> async def main() -> None:
    ...     server = NameServer(NamesrvOptions.load("listenPort = 0"), Env())
    ...     await server.start()
    ...     print(server.address.startswith("127.0.0.1:"))
    ...     await server.stop()
    >>> asyncio.run(main())
    True
    """

    def __init__(self, options: NamesrvOptions, env: Env) -> None:
        options.settings.refuse_absent()
        self._options = options
        self._clock = env.clock
        self._routes = Routes(options.registered_brokers_max, options.registered_topics_max)
        self._kv = KvConfig(env.files, Path(options.kv_config_path), options.kv_config_max_bytes)
        self._log = LimitedLog(log, env.clock)
        self.refusals = Refusals()
        config = LiveConfig(options, env.files)
        handlers = Handlers(self._routes, self._kv, config, env.clock)
        requests = RequestLog(env.clock, options.slow_request_threshold_ms)
        self.access = NamesrvAccess(options, env) if options.acl_enable else None
        """Access control; None when it is off."""
        self._server = Server(
            requests.watched(handlers.table(), changing=CHANGES, unwatched={RequestCode.GET_ROUTEINFO_BY_TOPIC}),
            clock=env.clock,
            gates=() if self.access is None else (self.access.gate,),
            tls=TlsServer.from_properties(tls_properties(options.settings.values, env.files)),
            idle_timeout=options.server_channel_max_idle_time_seconds,
            on_close=self._connection_lost,
            max_frame=options.frame_max_length,
            sockets=SocketOptions.of(options),
            limits=Limits.of(options),
            refusals=self.refusals,
            name="namesrv",
        )
        self.monitor = Monitor(options, self._routes, requests, self._server, self._kv)
        config.on_change.append(self.monitor.options_changed)
        self.monitor.registry.refusals(self.refusals.counts)
        if self.access is not None:
            add_access(self.monitor.registry, self.access.rules.counters)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """The port it listens on, also when the system chose it."""
        return self._server.port

    @property
    def address(self) -> str:
        """The address for clients on this machine."""
        host = self._options.bind_address
        return format_address("127.0.0.1" if host in ANY_ADDRESS else host, self.port)

    async def start(self) -> None:
        """Read the KV configuration and listen; ListenFailed when the port is taken."""
        if self._options.ignored:
            log.warning("these options have no effect here: %s", ", ".join(self._options.ignored))
        await self.monitor.start()
        try:
            self._kv.load()
            await self._server.start(self._options.bind_address, self._options.listen_port)
        except BaseException:
            await self.monitor.stop()
            raise
        self.monitor.ready()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._scan_brokers())]
        if self.access is not None:
            self._tasks.append(loop.create_task(self._watch_rules(self.access.rules)))

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        await self.monitor.stop()
        await self._server.stop()

    async def _watch_rules(self, rules: LiveRules) -> None:
        while True:
            await self._clock.sleep(WATCH_SECONDS)
            try:
                await rules.refresh()
            except Exception:
                log.exception("the access rules could not be looked at; the next turn tries again")

    async def _scan_brokers(self) -> None:
        """Evict brokers that have not registered for too long."""
        while True:
            await self._clock.sleep(self._options.scan_not_active_broker_interval_ms / 1000)
            oldest = self._clock.monotonic() - self._options.broker_channel_expired_time_ms / 1000
            for address, connection in self._routes.expired(oldest):
                self._log.warning("broker %s is evicted: it has not registered for too long", address)
                self._routes.evict(address)
                if isinstance(connection, Connection):
                    connection.close("the broker has not registered for too long")

    def _connection_lost(self, connection: Connection) -> None:
        for address in self._routes.owned_by(connection):
            self._log.warning("broker %s is evicted: its connection is lost", address)
            self._routes.evict(address)
