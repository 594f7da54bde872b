"""Registering the broker and its topics with every name server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from zlib import crc32

from ariane.broker.config.live import LiveOptions
from ariane.broker.periodic import Periodic
from ariane.broker.role import Role
from ariane.broker.tables.topics import TopicTable
from ariane.env import Clock
from ariane.errors import ArianeError, ResponseError
from ariane.protocol.bodies import DataVersion, KVTable, RegisterBrokerBody, TopicConfig, TopicConfigTable
from ariane.protocol.bodies.topics import READ, WRITE
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
)
from ariane.remoting import Client, Connection

log = logging.getLogger("ariane.broker")

UNREGISTER_TIMEOUT = 3.0
FIRST_RETRY = 1.0
LAST_RETRY = 8.0


class Registration:
    """Registers with all name servers in parallel: at start, each 30 s, and soon after a change.

    A name server that cannot be reached is retried after 1, 2, 4, then each 8 s, and one whose connection breaks at
    once, so that clients do not wait half a minute when name server and broker start in the wrong order. A
    registration always holds all topics: a restarted name server takes the first version it sees for complete and
    ignores a later registration of the same version.
    """

    def __init__(
        self,
        client: Client,
        options: LiveOptions,
        topics: TopicTable,
        role: Role,
        clock: Clock,
        *,
        address: Callable[[], str],
        ha_address: Callable[[], str],
    ) -> None:
        self._client = client
        self._options = options
        self._topics = topics
        self._role = role
        self._clock = clock
        self._address = address
        self._ha_address = ha_address
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._told = b""  # version of the topics in the last registration
        self._telling = b""  # the same for a registration in progress
        self._failing: set[str] = set()
        self.registered: set[str] = set()
        """The name servers that took the last registration."""
        self._retries: dict[str, asyncio.Task[None]] = {}
        self.active = False
        self.withholds_writes = False
        """Whether topics are registered as read-only whatever the options say."""
        self.master_address: str | None = None
        """The master of this broker's name, as the name servers answer."""
        self.master_ha_address: str | None = None
        self.on_master: list[Callable[[], None]] = []
        """Called when the addresses of the master have changed."""
        self.filter_servers: Callable[[], list[str]] = list
        """The filter servers beside this broker."""
        self.on_newer_master: Callable[[int, str], None] = lambda epoch, address: None
        """Called on a master when a name server knows another one with a newer epoch."""
        topics.on_change.append(lambda _: self.soon())
        role.on_change(self._role_changed)

    @property
    def name_servers(self) -> list[str]:
        """The addresses of the name servers; empty when the broker registers nowhere."""
        listed = self._options.current.namesrv_addr or ""
        return [address.strip() for address in listed.split(";") if address.strip()]

    async def register(self) -> None:
        """Register now; return when every name server answered or failed. The first failure of each is logged."""
        self.active = True
        version, body = self._topics.version.encode(), self._body()
        self._telling = version
        await asyncio.gather(*(self._register_at(address, body) for address in self.name_servers))
        self._told = version

    def soon(self) -> None:
        """Register in the background; repeated calls cause at most two registrations."""
        if not self.active:
            return
        if self._task is not None and not self._task.done():
            self._again = True
            return
        self._task = asyncio.get_running_loop().create_task(self._until_current(), name="register")

    async def current(self) -> None:
        """Return when every change so far is registered with the name servers."""
        version = self._topics.version.encode()
        under_way = self._task is not None and not self._task.done() and self._telling == version
        if self._told != version and not under_way:
            self.soon()
        if self._task is not None:
            await asyncio.wait({self._task})

    def _role_changed(self) -> None:
        self.master_address = self.master_ha_address = None
        if self.active and self._role.is_master:
            self._topics.touch()  # name servers take the topics of a master whose version they do not know
        self.soon()

    def _take_master(self, answer: RegisterBrokerResponse) -> None:
        """Take the master's addresses. The answer of a name server that knows no master is ignored."""
        found, ha_found = answer.master_addr or None, answer.ha_server_addr or None
        if found is None or found == self._address():
            return
        if self._role.is_master:
            if (answer.broker_epoch or 0) > self._role.epoch:
                self.on_newer_master(answer.broker_epoch or 0, found)
        elif (found, ha_found) != (self.master_address, self.master_ha_address):
            log.info("the master is %s, for copies %s", found, ha_found)
            self.master_address, self.master_ha_address = found, ha_found
            for listener in self.on_master:
                listener()

    def lost(self, connection: Connection) -> None:
        """Register again at once with a name server whose connection was closed."""
        if connection.address in self.name_servers:
            self.registered.discard(connection.address)
            self._retry(connection.address, 0.0)

    async def unregister(self) -> None:
        """Stop registering, and unregister from every name server."""
        self.active = False
        self.registered.clear()
        tasks = [*self._retries.values(), *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(self._unregister_at(address) for address in self.name_servers))

    def periodic(self) -> Periodic:
        """The repeated registration."""
        period = self._options.current.register_name_server_period_ms / 1000
        return Periodic(self._clock, period, self._regularly, name="register", first=10)

    def _retry(self, address: str, pause: float) -> None:
        if self.active and address not in self._retries:
            task = asyncio.get_running_loop().create_task(self._until_registered(address, pause))
            self._retries[address] = task
            task.add_done_callback(lambda _: self._retries.pop(address, None))

    async def _until_registered(self, address: str, pause: float) -> None:
        while True:
            if pause:
                await self._clock.sleep(pause)
            await self._register_at(address, self._body())
            if address not in self._failing:
                return
            pause = min(max(2 * pause, FIRST_RETRY), LAST_RETRY)

    async def _until_current(self) -> None:
        self._again = True
        while self._again:
            self._again = False
            try:
                await self.register()
            except Exception:
                log.exception("registration failed; the next change or period tries again")

    async def _regularly(self) -> None:
        if not self.active:
            return
        if not self._options.current.force_register:
            changed = await asyncio.gather(*(self._changed_at(address) for address in self.name_servers))
            if not any(changed):
                return
        await self.register()

    async def _changed_at(self, address: str) -> bool:
        """Whether a name server holds another version of the topics."""
        o, version = self._options.current, self._topics.version
        header = QueryDataVersionRequest(o.broker_name, self._address(), o.broker_cluster_name, self._role.broker_id)
        command = Command(RequestCode.QUERY_DATA_VERSION, header.fields(), version.encode())
        try:
            response = await self._request(address, command)
            changed = QueryDataVersionResponse.parse(response.fields).changed
            return changed or (bool(response.body) and DataVersion.decode(response.body) != version)
        except ArianeError as error:
            log.debug("%s did not answer which version it holds: %s", address, error)
            return True

    async def _register_at(self, address: str, body: bytes) -> None:
        o = self._options.current
        header = RegisterBrokerRequest(
            broker_name=o.broker_name,
            broker_addr=self._address(),
            cluster_name=o.broker_cluster_name,
            ha_server_addr=self._ha_address(),
            broker_id=self._role.broker_id,
            compressed=o.compressed_register,
            body_crc32=crc32(body) & 0x7FFFFFFF,
            broker_epoch=self._role.epoch or None,
            enable_acting_master=o.enable_slave_acting_master or None,
        )
        try:
            response = await self._request(address, Command(RequestCode.REGISTER_BROKER, header.fields(), body))
            answer = RegisterBrokerResponse.parse(response.fields)
            self._take_master(answer)
            if response.body:
                self._topics.mark_ordered(KVTable.decode(response.body))
        except ArianeError as error:
            if address not in self._failing:
                log.warning("cannot register with the name server %s: %s", address, error)
            self._failing.add(address)
            self.registered.discard(address)
            self._retry(address, FIRST_RETRY)
        else:
            if address in self._failing:
                log.info("registered with the name server %s again", address)
            self._failing.discard(address)
            self.registered.add(address)

    async def _unregister_at(self, address: str) -> None:
        o = self._options.current
        header = UnregisterBrokerRequest(o.broker_name, self._address(), o.broker_cluster_name, self._role.broker_id)
        command = Command(RequestCode.UNREGISTER_BROKER, header.fields())
        try:
            await self._client.request(address, command, UNREGISTER_TIMEOUT)
        except ArianeError as error:
            log.info("cannot unregister from the name server %s: %s", address, error)

    async def _request(self, address: str, command: Command) -> Command:
        timeout = self._options.current.register_broker_timeout_mills / 1000
        response = await self._client.request(address, command, timeout)
        if response.code != 0:
            raise ResponseError(response.code, response.remark or "no reason given")
        return response

    def _body(self) -> bytes:
        """All topics. A broker whose permission is restricted restricts every topic to it."""
        options, topics = self._options.current, self._topics
        permission = options.broker_permission & ~(WRITE if self.withholds_writes else 0)
        offered = {config.topic_name: config for config in topics}
        if not permission & READ or not permission & WRITE:
            offered = {
                name: TopicConfig(name, config.read_queue_nums, config.write_queue_nums, permission)
                for name, config in offered.items()
            }
        body = RegisterBrokerBody(TopicConfigTable(topics.version, offered), self.filter_servers())
        return body.compress() if options.compressed_register else body.encode()
