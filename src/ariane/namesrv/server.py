"""The name server: its tables, its port, and the scan for silent brokers."""

import asyncio
import logging
from pathlib import Path

from ariane.env import Env
from ariane.namesrv.config import NamesrvOptions
from ariane.namesrv.handlers import Handlers
from ariane.namesrv.kv import KvConfig
from ariane.namesrv.live_config import LiveConfig
from ariane.namesrv.routes import Routes
from ariane.remoting import Connection, Limits, Server, SocketOptions, TlsServer, format_address
from ariane.remoting.limited_log import LimitedLog
from ariane.remoting.tls_properties import tls_properties

log = logging.getLogger("ariane.namesrv")

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
        handlers = Handlers(self._routes, self._kv, LiveConfig(options, env.files), env.clock)
        self._server = Server(
            handlers.table(),
            clock=env.clock,
            tls=TlsServer.from_properties(tls_properties(options.settings.values, env.files)),
            idle_timeout=options.server_channel_max_idle_time_seconds,
            on_close=self._connection_lost,
            max_frame=options.frame_max_length,
            sockets=SocketOptions.of(options),
            limits=Limits.of(options),
            name="namesrv",
        )
        self._scan: asyncio.Task[None] | None = None

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
        self._kv.load()
        await self._server.start(self._options.bind_address, self._options.listen_port)
        self._scan = asyncio.get_running_loop().create_task(self._scan_brokers())

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        if self._scan is not None:
            self._scan.cancel()
            self._scan = None
        await self._server.stop()

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
