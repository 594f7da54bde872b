"""What the clients of a process share: connections, routes, heartbeats, and the handlers of brokers' requests."""

import asyncio
import logging
import os
from dataclasses import replace
from typing import ClassVar, Protocol
from weakref import WeakKeyDictionary
from zlib import crc32

from ariane.access.signer import Signer
from ariane.client.connect.broker_calls import BrokerCalls
from ariane.client.connect.ids import UniqueIds, local_address
from ariane.client.connect.name_servers import DISCOVERY_INTERVAL, NameServers
from ariane.client.connect.replies import Replies
from ariane.client.connect.routes import MASTER, Routes
from ariane.client.connect.server_requests import ConsumerMember, ServerRequests
from ariane.client.connect.tasks import Tasks
from ariane.client.connect.wire import Wire
from ariane.client.options import ClientOptions
from ariane.env import Env
from ariane.errors import AccessDenied, ArianeError, ClientError
from ariane.message import TIMER_OPTION
from ariane.protocol.bodies import ClusterInfo, HeartbeatData, ProducerData
from ariane.protocol.codes import VERSION_5_0_0, RequestCode
from ariane.protocol.headers import UnregisterClientRequest
from ariane.remoting import Client, Connection, RpcHook

log = logging.getLogger("ariane.client")

REGISTER_PAUSE = 1.0  # seconds until the next heartbeat to a broker that lacks our producers; then doubled


class Instance:
    """One client to brokers: an id, its connections, and its groups."""

    def __init__(
        self, options: ClientOptions, env: Env, address: str, number: int, hooks: tuple[RpcHook, ...] = ()
    ) -> None:
        self.options = options
        self.env = env
        name = options.instance_name or f"{os.getpid()}#{env.clock.now_ms()}{number:03d}"
        self.client_id = f"{address}@{name}" + (f"@{options.unit_name}" if options.unit_name else "")
        self.address = address
        self.tasks = Tasks(env.clock, self.client_id)
        self.replies = Replies()
        self.producers: dict[str, object] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        self.remoting = self._connect(hooks)
        self.wire = Wire(self.remoting, options.api_timeout, options.binary_headers)
        self.routes = Routes(NameServers(options.addresses, self.wire, env.random))
        self.calls = BrokerCalls(self.wire, self.routes)
        self.ids = UniqueIds(address, env.clock, crc32(self.client_id.encode()))
        self.users = 0
        self._heartbeat_lock = asyncio.Lock()
        self._heard: dict[str, frozenset[str]] = {}  # broker address -> producer groups registered there
        self._timers: dict[str, bool] = {}
        self._registering: asyncio.Task[None] | None = None
        self._forgotten = asyncio.Event()  # set when a broker may have forgotten our producers

    def _connect(self, hooks: tuple[RpcHook, ...]) -> Client:
        options = self.options
        signers: tuple[RpcHook, ...] = ()
        if options.access_key is not None and options.secret_key is not None:
            clock = self.env.clock if options.stamp_requests else None
            signers = (Signer(options.access_key, options.secret_key, options.security_token, clock=clock),)
        requests = ServerRequests(self.producers, self.consumers, self.replies, self.tasks, self.env.clock)
        return Client(
            clock=self.env.clock,
            handlers=requests.table(),
            hooks=(*hooks, *signers),
            tls=None if options.tls is None else replace(options.tls),  # the copy has a context of its own
            connect_timeout=options.connect_timeout,
            on_close=self._lost,
            name=f"client {self.client_id}",
        )

    def start(self) -> None:
        """Start the periodic work."""
        self.tasks.every(self.options.heartbeat_interval, self.send_heartbeats)
        self.tasks.every(self.options.route_interval, self.routes.refresh_all)
        if self.routes.names.is_discovered:
            self.tasks.every(DISCOVERY_INTERVAL, self.routes.names.discover)

    def heartbeat(self) -> HeartbeatData:
        """The groups of this instance."""
        return HeartbeatData(
            self.client_id,
            [ProducerData(group) for group in self.producers],
            [consumer.describe() for consumer in self.consumers.values()],
        )

    async def send_heartbeats(self, *, complain: bool = False) -> None:
        """Send a heartbeat to every broker in use; without consumers, to masters only.

        Failures are left to the next heartbeat; with `complain` an access denial is raised.
        """
        if not self.producers and not self.consumers:
            return
        async with self._heartbeat_lock:
            targets = [
                address
                for addresses in self.routes.brokers.values()
                for broker_id, address in addresses.items()
                if self.consumers or broker_id == MASTER
            ]
            body = self.heartbeat().encode()
            outcomes = await asyncio.gather(*(self._send_heartbeat(address, body) for address in targets))
            groups = frozenset(self.producers)
            self._heard = {address: groups for address, error in zip(targets, outcomes, strict=True) if error is None}
        denied = next((error for error in outcomes if isinstance(error, AccessDenied)), None)
        if complain and denied is not None:
            raise denied

    async def register(self, address: str, group: str) -> None:
        """Register a producer group with a broker that lacks it: transaction checks go only to registered groups."""
        if group in self._heard.get(address, ()):
            return
        async with self._heartbeat_lock:
            groups = frozenset(self.producers)
            if group not in self._heard.get(address, ()):
                error = await self._send_heartbeat(address, self.heartbeat().encode())
                if error is None:
                    self._heard[address] = groups

    async def register_everywhere(self) -> None:
        """Register the producers of this instance with every master, now and whenever a broker comes back.

        A broker checks half messages only with registered producers, and a half message that this process sent before
        a restart may be on any master.
        """
        told = await self._register_once()
        if self._registering is None:
            self._registering = self.tasks.supervise("registering with brokers", lambda: self._keep_registered(told))

    async def _keep_registered(self, told: bool) -> None:
        longest = self.options.route_interval
        pause = longest if told else min(REGISTER_PAUSE, longest)
        while True:
            await self.tasks.wait(self._forgotten, pause)
            if self._forgotten.is_set():
                await self.env.clock.sleep(REGISTER_PAUSE)  # give a restarting broker time
                self._forgotten.clear()
                pause = REGISTER_PAUSE / 2
            told = await self._register_once()
            pause = longest if told else min(2 * pause, longest)

    async def _register_once(self) -> bool:
        """Send heartbeats to the masters that lack producers of this instance; False when one did not answer."""
        try:
            response = await self.routes.names.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
            self.routes.keep_cluster(ClusterInfo.decode(response.body))
        except ArianeError as error:
            log.warning("%s: cannot register its producers with brokers: %s", self.client_id, error)
            return False
        async with self._heartbeat_lock:
            groups = frozenset(self.producers)
            masters = {addresses[MASTER] for addresses in self.routes.brokers.values() if MASTER in addresses}
            targets = [address for address in masters if not groups <= self._heard.get(address, frozenset())]
            body = self.heartbeat().encode()
            outcomes = await asyncio.gather(*(self._send_heartbeat(address, body) for address in targets))
            heard = [address for address, error in zip(targets, outcomes, strict=True) if error is None]
            self._heard.update(dict.fromkeys(heard, groups))
        return len(heard) == len(targets)

    async def has_timers(self, address: str) -> bool:
        """Whether a broker supports delivery times: RocketMQ 5 does, and Ariane announces it."""
        found = self._timers.get(address)
        if found is None:
            ask = {TIMER_OPTION: ""}
            response = await self.wire.ask(address, RequestCode.HEART_BEAT, ask, self.heartbeat().encode())
            found = response.version >= VERSION_5_0_0 or response.fields.get(TIMER_OPTION) == "true"
            self._timers[address] = found
        return found

    def _lost(self, connection: Connection) -> None:
        """Assume that a broker has lost our registrations: it may have restarted."""
        self._timers.pop(connection.address, None)
        if self._heard.pop(connection.address, None) is not None:
            self._forgotten.set()

    async def _send_heartbeat(self, address: str, body: bytes) -> ArianeError | None:
        try:
            await self.wire.ask(address, RequestCode.HEART_BEAT, body=body)
        except AccessDenied as error:
            log.warning("%s", error)
            return error
        except ArianeError as error:
            log.info("no heartbeat to %s: %s", address, error)
            return error
        return None

    async def unregister(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        """Unregister a group of this client at the brokers."""
        header = UnregisterClientRequest(self.client_id, producer_group, consumer_group)
        addresses = [address for addresses in self.routes.brokers.values() for address in addresses.values()]

        async def tell(address: str) -> None:
            try:
                await self.wire.ask(address, RequestCode.UNREGISTER_CLIENT, header, timeout=1.0)
            except ArianeError as error:
                log.debug("not unregistered from %s: %s", address, error)

        await asyncio.gather(*(tell(address) for address in addresses))

    async def close(self) -> None:
        """End all background work and close the connections."""
        await self.tasks.close()
        await self.calls.uploads.close()
        self.replies.close()
        await self.remoting.close()


class Closable(Protocol):
    """A client that must be closed before the interpreter exits."""

    @property
    def needs_threads(self) -> bool:
        """Whether it works in a pool of threads, which the interpreter ends first."""
        ...

    async def close(self) -> None: ...


class Instances:
    """The instances of one event loop. Clients with equal options share one, unless their groups would collide."""

    _of_loop: ClassVar["WeakKeyDictionary[asyncio.AbstractEventLoop, Instances]"] = WeakKeyDictionary()

    def __init__(self) -> None:
        self.clients: set[Closable] = set()
        """The clients that run in this loop."""
        self._instances: list[Instance] = []
        self._making = asyncio.Lock()
        self._made = 0

    @classmethod
    def here(cls) -> "Instances":
        """The instances of the running loop."""
        return cls._of_loop.setdefault(asyncio.get_running_loop(), cls())

    async def acquire(
        self, options: ClientOptions, env: Env, hooks: tuple[RpcHook, ...], kind: str, group: str
    ) -> Instance:
        """Return an instance in which `group` is free; call `release` when done."""
        if not options.addresses:
            raise ClientError("no name server is known: give name_servers=... or set NAMESRV_ADDR")
        key = ClientOptions.of(options, {})
        async with self._making:
            instance = None
            if not hooks:  # hooks see all requests of an instance, so a client with hooks has one of its own
                instance = next((i for i in self._instances if i.env is env and _fits(i, key, kind, group)), None)
            if instance is None:
                self._made += 1
                instance = Instance(key, env, await local_address(key.addresses), self._made, hooks)
                instance.start()
                if not hooks:
                    self._instances.append(instance)
            instance.users += 1
            if kind == "producer":
                instance.producers.setdefault(group, None)  # reserves the group until the producer is ready
        return instance

    async def release(self, instance: Instance) -> None:
        """Return an instance; the last user closes it."""
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
        raise ClientError(
            f"{kind} group {group} is already in instance {key.instance_name!r} of this process: give it another "
            "instance_name"
        )
    return not taken
