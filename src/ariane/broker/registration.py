"""Telling every name server what this broker has."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from zlib import crc32

from ariane.broker.periodic import Periodic
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

if TYPE_CHECKING:
    from ariane.broker.server import Broker
    from ariane.remoting import Connection

log = logging.getLogger("ariane.broker")

UNREGISTER_TIMEOUT = 3.0
FIRST_RETRY = 1.0
LAST_RETRY = 8.0


class Registration:
    """Registers with all name servers in parallel: at start, each 30 s, and soon after a change.

    A name server that cannot be reached is tried again after 1, 2, 4, then each 8 s, and one whose connection breaks at
    once: clients should not wait half a minute because name server and broker started in the wrong order. It is always
    told all topics: one that begins anew takes the first registration's version for all that there is, and would not
    look at the rest when it comes with the same version.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._told = b""  # the version of the topics in the last registration
        self._telling = b""  # the same of a registration under way
        self._failing: set[str] = set()
        self._retries: dict[str, asyncio.Task[None]] = {}
        self.active = False
        self.master_address: str | None = None
        """What the name servers say is the master of this broker's name."""
        self.master_ha_address: str | None = None
        broker.topics.on_change.append(lambda _: self.soon())

    @property
    def name_servers(self) -> list[str]:
        """Their addresses; none when the broker stands alone."""
        listed = self._broker.options.namesrv_addr or ""
        return [address.strip() for address in listed.split(";") if address.strip()]

    async def register(self) -> None:
        """Register now and return when every name server answered or failed to; a failure is logged, once."""
        self.active = True
        version, body = self._broker.topics.version.encode(), self._body()
        self._telling = version
        await asyncio.gather(*(self._register_at(address, body) for address in self.name_servers))
        self._told = version

    def soon(self) -> None:
        """Register in the background; many calls in a row make at most two registrations."""
        if not self.active:
            return
        if self._task is not None and not self._task.done():
            self._again = True
            return
        self._task = asyncio.get_running_loop().create_task(self._until_current())

    async def current(self) -> None:
        """Return when the name servers were told of every change so far."""
        version = self._broker.topics.version.encode()
        under_way = self._task is not None and not self._task.done() and self._telling == version
        if self._told != version and not under_way:
            self.soon()
        if self._task is not None:
            await asyncio.wait({self._task})

    def lost(self, connection: Connection) -> None:
        """A connection of the broker's client was closed; if it led to a name server, that one is tried at once."""
        if connection.address in self.name_servers:
            self._retry(connection.address, 0.0)

    def _retry(self, address: str, pause: float) -> None:
        if self.active and address not in self._retries:
            task = asyncio.get_running_loop().create_task(self._until_registered(address, pause))
            self._retries[address] = task
            task.add_done_callback(lambda _: self._retries.pop(address, None))

    async def _until_registered(self, address: str, pause: float) -> None:
        while True:
            if pause:
                await self._broker.env.clock.sleep(pause)
            await self._register_at(address, self._body())
            if address not in self._failing:
                return
            pause = min(max(2 * pause, FIRST_RETRY), LAST_RETRY)

    async def _until_current(self) -> None:
        self._again = True
        while self._again:
            self._again = False
            await self.register()

    async def unregister(self) -> None:
        """Say goodbye to every name server."""
        self.active = False
        tasks = [*self._retries.values(), *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(self._unregister_at(address) for address in self.name_servers))

    def periodic(self) -> Periodic:
        period = self._broker.options.register_name_server_period_ms / 1000
        return Periodic(self._broker.env.clock, period, self._regularly, name="register", first=10)

    async def _regularly(self) -> None:
        if not self.active:
            return
        if self._broker.options.force_register or await self._changed_anywhere():
            await self.register()

    async def _changed_anywhere(self) -> bool:
        answers = await asyncio.gather(*(self._changed_at(address) for address in self.name_servers))
        return any(answers)

    async def _changed_at(self, address: str) -> bool:
        """Whether a name server knows another version of our topics than we do."""
        o = self._broker.options
        header = QueryDataVersionRequest(o.broker_name, self._broker.address, o.broker_cluster_name, o.broker_id)
        version = self._broker.topics.version
        command = Command(RequestCode.QUERY_DATA_VERSION, header.fields(), version.encode())
        try:
            response = await self._request(address, command)
            changed = QueryDataVersionResponse.parse(response.fields).changed
            return changed or (bool(response.body) and DataVersion.decode(response.body) != version)
        except ArianeError as error:
            log.debug("%s could not say what it knows of us: %s", address, error)
            return True

    async def _register_at(self, address: str, body: bytes) -> None:
        try:
            response = await self._request(address, Command(RequestCode.REGISTER_BROKER, self._fields(body), body))
            header = RegisterBrokerResponse.parse(response.fields)
            self.master_address = header.master_addr or self.master_address
            self.master_ha_address = header.ha_server_addr or self.master_ha_address
            if response.body:
                self._broker.topics.mark_ordered(KVTable.decode(response.body))
        except ArianeError as error:
            if address not in self._failing:
                log.warning("cannot register with the name server %s: %s", address, error)
            self._failing.add(address)
            self._retry(address, FIRST_RETRY)
        else:
            if address in self._failing:
                log.info("registered with the name server %s again", address)
            self._failing.discard(address)

    async def _unregister_at(self, address: str) -> None:
        o = self._broker.options
        header = UnregisterBrokerRequest(o.broker_name, self._broker.address, o.broker_cluster_name, o.broker_id)
        command = Command(RequestCode.UNREGISTER_BROKER, header.fields())
        try:
            await self._broker.client.request(address, command, UNREGISTER_TIMEOUT)
        except ArianeError as error:
            log.info("the name server %s was not told of the end: %s", address, error)

    async def _request(self, address: str, command: Command) -> Command:
        timeout = self._broker.options.register_broker_timeout_mills / 1000
        response = await self._broker.client.request(address, command, timeout)
        if response.code != 0:
            raise ResponseError(response.code, response.remark or "no reason given")
        return response

    def _fields(self, body: bytes) -> dict[str, str]:
        o = self._broker.options
        return RegisterBrokerRequest(
            broker_name=o.broker_name,
            broker_addr=self._broker.address,
            cluster_name=o.broker_cluster_name,
            ha_server_addr=self._broker.ha_address,
            broker_id=o.broker_id,
            compressed=o.compressed_register,
            body_crc32=crc32(body) & 0x7FFFFFFF,
        ).fields()

    def _body(self) -> bytes:
        topics = self._broker.topics
        body = RegisterBrokerBody(TopicConfigTable(topics.version, self._offered()))
        return body.compress() if self._broker.options.compressed_register else body.encode()

    def _offered(self) -> dict[str, TopicConfig]:
        """The topics with what may be done with them here: a broker that is drained passes its permission on to all."""
        permission = self._broker.options.broker_permission
        if permission & READ and permission & WRITE:
            return {c.topic_name: c for c in self._broker.topics}
        return {
            c.topic_name: TopicConfig(c.topic_name, c.read_queue_nums, c.write_queue_nums, permission)
            for c in self._broker.topics
        }
