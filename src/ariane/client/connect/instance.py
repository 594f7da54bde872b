"""What the producers and consumers of a process share: connections, routes, heartbeats, and requests from brokers."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary
from zlib import crc32

from ariane.client.connect.acl import Signer
from ariane.client.connect.broker_calls import BrokerCalls
from ariane.client.connect.ids import UniqueIds, local_address
from ariane.client.connect.name_servers import DISCOVERY_INTERVAL, NameServers
from ariane.client.connect.routes import MASTER, Routes
from ariane.client.connect.server_requests import ConsumerMember, ServerRequests
from ariane.client.connect.wire import Wire
from ariane.client.options import ClientOptions
from ariane.client.producer.request_reply import Replies
from ariane.env import Env
from ariane.errors import AccessDenied, ArianeError, ClientError, NotRunning
from ariane.protocol.bodies import HeartbeatData, ProducerData
from ariane.protocol.codes import RequestCode
from ariane.protocol.headers import UnregisterClientRequest
from ariane.remoting import Client, Connection, RpcHook

log = logging.getLogger("ariane.client")


class Instance:
    """One client to brokers: an id, its connections, and the groups that live in it."""

    def __init__(
        self, options: ClientOptions, env: Env, address: str, number: int, hooks: tuple[RpcHook, ...] = ()
    ) -> None:
        self.options = options
        self.env = env
        name = options.instance_name or f"{os.getpid()}#{env.clock.now_ms()}{number:03d}"
        self.client_id = f"{address}@{name}" + (f"@{options.unit_name}" if options.unit_name else "")
        self.address = address
        self.remoting = self._connect(hooks)
        self.wire = Wire(self.remoting, options.api_timeout, options.binary_headers)
        self.routes = Routes(NameServers(options.addresses, self.wire, env.random))
        self.calls = BrokerCalls(self.wire, self.routes)
        self.ids = UniqueIds(address, env.clock, crc32(self.client_id.encode()))
        self.replies = Replies()
        self.producers: dict[str, object] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        self.users = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._beating = asyncio.Lock()
        self._heard: dict[str, frozenset[str]] = {}  # the producer groups that each broker has heard of
        self._closed = False

    def _connect(self, hooks: tuple[RpcHook, ...]) -> Client:
        options = self.options
        signers: tuple[RpcHook, ...] = ()
        if options.access_key is not None and options.secret_key is not None:
            signers = (Signer(options.access_key, options.secret_key, options.security_token),)
        return Client(
            clock=self.env.clock,
            handlers=ServerRequests(self).table(),
            hooks=(*hooks, *signers),
            tls=None if options.tls is None else replace(options.tls),  # the copy has a context of its own
            connect_timeout=options.connect_timeout,
            on_close=self._lost,
            name=f"client {self.client_id}",
        )

    def start(self) -> None:
        """Begin the regular work."""
        self.every(self.options.heartbeat_interval, self.send_heartbeats)
        self.every(self.options.route_interval, self.routes.refresh_all)
        if self.routes.names.is_discovered:
            self.every(DISCOVERY_INTERVAL, self.routes.names.discover)

    def every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Do something again and again until the instance closes or the task is cancelled; errors do not end it."""

        async def repeat() -> None:
            while True:
                await self.env.clock.sleep(seconds)
                try:
                    await work()
                except (ArianeError, OSError):
                    log.warning("%s: regular work failed, and will be tried again", self.client_id, exc_info=True)

        return self.spawn(repeat())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside; the instance ends it when it closes."""
        if self._closed:
            work.close()
            raise NotRunning("the client is closed")
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: background work failed", self.client_id, exc_info=error)

    def heartbeat(self) -> HeartbeatData:
        """Who lives here."""
        return HeartbeatData(
            self.client_id,
            [ProducerData(group) for group in self.producers],
            [consumer.describe() for consumer in self.consumers.values()],
        )

    async def send_heartbeats(self, *, complain: bool = False) -> None:
        """Tell every broker in use who lives here; producers alone matter to masters only.

        A broker that does not answer is told next time; with `complain` a denial is raised.
        """
        if not self.producers and not self.consumers:
            return
        async with self._beating:
            targets = self._heartbeat_targets()
            body = self.heartbeat().encode()
            outcomes = await asyncio.gather(*(self._beat(address, body) for address in targets))
            groups = frozenset(self.producers)
            self._heard = {address: groups for address, error in zip(targets, outcomes, strict=True) if error is None}
        denied = next((error for error in outcomes if isinstance(error, AccessDenied)), None)
        if complain and denied is not None:
            raise denied

    async def greet(self, address: str, group: str) -> None:
        """Send a heartbeat to a broker that has not heard of a producer group: it asks back only whom it knows."""
        if group in self._heard.get(address, ()):
            return
        async with self._beating:
            groups = frozenset(self.producers)
            if (
                group not in self._heard.get(address, ())
                and await self._beat(address, self.heartbeat().encode()) is None
            ):
                self._heard[address] = groups

    def _lost(self, connection: Connection) -> None:
        """A broker may have restarted, and not know us any more."""
        self._heard.pop(connection.address, None)

    def _heartbeat_targets(self) -> list[str]:
        return [
            address
            for addresses in self.routes.brokers.values()
            for broker_id, address in addresses.items()
            if self.consumers or broker_id == MASTER
        ]

    async def _beat(self, address: str, body: bytes) -> ArianeError | None:
        try:
            await self.wire.ask(address, RequestCode.HEART_BEAT, body=body)
        except AccessDenied as error:
            log.warning("%s", error)
            return error
        except ArianeError as error:
            log.info("no heartbeat to %s: %s", address, error)
            return error
        return None

    async def leave(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        """Tell the brokers that a group is gone from here."""
        header = UnregisterClientRequest(self.client_id, producer_group, consumer_group)
        addresses = [address for addresses in self.routes.brokers.values() for address in addresses.values()]
        await asyncio.gather(*(self._farewell(address, header) for address in addresses))

    async def _farewell(self, address: str, header: UnregisterClientRequest) -> None:
        try:
            await self.wire.ask(address, RequestCode.UNREGISTER_CLIENT, header, timeout=1.0)
        except ArianeError as error:
            log.debug("no farewell to %s: %s", address, error)

    async def close(self) -> None:
        """End all regular work and close the connections."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.replies.close()
        await self.remoting.close()


class Leaver(Protocol):
    """A client that is to be closed before the interpreter ends."""

    @property
    def needs_threads(self) -> bool:
        """Whether it works in a pool of threads, which the interpreter ends first."""
        ...

    async def close(self) -> None: ...


class Instances:
    """The instances of one event loop. Clients with equal options share one, unless their groups would collide."""

    _of_loop: ClassVar["WeakKeyDictionary[asyncio.AbstractEventLoop, Instances]"] = WeakKeyDictionary()

    def __init__(self) -> None:
        self.clients: set[Leaver] = set()
        """The clients that run here."""
        self._instances: list[Instance] = []
        self._making = asyncio.Lock()
        self._made = 0

    @classmethod
    def here(cls) -> "Instances":
        """Those of the running loop."""
        return cls._of_loop.setdefault(asyncio.get_running_loop(), cls())

    async def acquire(
        self, options: ClientOptions, env: Env, hooks: tuple[RpcHook, ...], kind: str, group: str
    ) -> Instance:
        """An instance in which `group` is free."""
        if not options.addresses:
            raise ClientError("no name server is known: give name_servers=... or set NAMESRV_ADDR")
        key = ClientOptions.of(options, {})
        async with self._making:
            instance = None
            if not hooks:  # hooks see all requests of an instance, so a client with hooks has one of its own
                instance = next((i for i in self._instances if i.env is env and _fits(i, key, kind, group)), None)
            if instance is None:
                instance = await self._make(key, env, hooks)
            instance.users += 1
            if kind == "producer":
                instance.producers.setdefault(group, None)  # keeps the place until the producer is ready
        return instance

    async def _make(self, key: ClientOptions, env: Env, hooks: tuple[RpcHook, ...]) -> Instance:
        self._made += 1
        address = await local_address(key.addresses)
        instance = Instance(key, env, address, self._made, hooks)
        instance.start()
        if not hooks:
            self._instances.append(instance)
        return instance

    async def release(self, instance: Instance) -> None:
        """Give an instance back; the last one closes it."""
        instance.users -= 1
        if instance.users == 0:
            if instance in self._instances:
                self._instances.remove(instance)
            await instance.close()


def _fits(instance: Instance, key: ClientOptions, kind: str, group: str) -> bool:
    if instance.options != key:
        return False
    taken = (kind == "producer" and group in instance.producers) or (kind == "consumer" and group in instance.consumers)
    if taken and key.instance_name is not None:
        raise ClientError(f"{kind} group {group} is already in instance {key.instance_name!r} of this process")
    return not taken
