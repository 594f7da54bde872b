"""Blocking requests to a cluster: queues, their offsets, and the brokers that serve them."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from ariane.client.connect.name_servers import NameServers
from ariane.client.connect.routes import MASTER, Routes
from ariane.client.connect.wire import SUCCESS, Wire
from ariane.env import Env
from ariane.errors import BrokerRefused, ConfigError, RemotingError, RouteMissing
from ariane.message import AUTO_CREATE_TOPIC, MessageQueue
from ariane.protocol.bodies import ClusterInfo, ConsumerOffsetTable, KVTable, TopicList
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import (
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    Header,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from ariane.remoting import Client, RpcHook
from ariane.spark.access import Access

T = TypeVar("T")


@dataclass(frozen=True)
class Bounds:
    """The offsets of a queue that a broker has: [first, end)."""

    first: int
    end: int


class Cluster:
    """A cluster for the planner of a query. Owns a thread with an event loop until it is closed."""

    def __init__(self, access: Access, env: Env | None = None) -> None:
        self._env = env or Env()
        self._access = access
        self._brokers: dict[str, dict[int, str]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ariane-spark", daemon=True)
        self._thread.start()
        self._run(self._open())

    async def _open(self) -> None:
        signer = self._access.signer()
        hooks: tuple[RpcHook, ...] = () if signer is None else (signer,)
        self._remoting = Client(clock=self._env.clock, hooks=hooks, tls=self._access.tls_client(), name="spark")
        self._wire = Wire(self._remoting, 5.0, binary=False)
        self._names = NameServers(self._access.name_servers, self._wire, self._env.random)
        self.routes = Routes(self._names)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._loop.is_closed():
            return
        self._run(self._remoting.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def pause(self, seconds: float) -> None:
        """Sleep by the clock of this cluster."""
        self._run(self._env.clock.sleep(seconds))

    def monotonic(self) -> float:
        return self._env.clock.monotonic()

    def now_ms(self) -> int:
        return self._env.clock.now_ms()

    def topics(self) -> list[str]:
        """List the topics of the name servers."""
        body = self._run(self._names.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body
        return sorted(TopicList.decode(body).topic_list)

    def queues(self, topics: Iterable[str], *, required: bool = True) -> list[MessageQueue]:
        """The readable queues of topics by their current routes, sorted."""

        async def of(topic: str) -> tuple[MessageQueue, ...]:
            try:
                return (await self.routes.refresh(topic)).read_queues
            except RouteMissing as missing:
                if required:
                    raise ConfigError(f"option topic={topic!r}: {missing}") from missing
                return ()

        return sorted({queue for found in self._all([of(topic) for topic in topics]) for queue in found})

    def write_queues(self, topic: str, *, fresh: bool = False) -> list[MessageQueue]:
        """The writable queues of a topic; for a missing topic, those that it will be created with."""
        if fresh:
            self._run(self.routes.refresh_quietly(topic))
        route = self._run(self.routes.find_to_publish(topic, AUTO_CREATE_TOPIC, 4))
        if not route.write_queues:
            raise RemotingError(f"topic {topic} has no queue that can be written now")
        return list(route.write_queues)

    def _all(self, work: list[Coroutine[Any, Any, T]]) -> list[T]:
        async def gather() -> list[T]:
            return await asyncio.gather(*work)

        return self._run(gather())

    def find_brokers(self) -> None:
        """Fetch the addresses of all brokers of the cluster."""
        body = self._run(self._names.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body
        self._brokers = {name: data.broker_addrs for name, data in ClusterInfo.decode(body).broker_addr_table.items()}

    def addresses(self, broker_name: str) -> tuple[str, ...]:
        """The addresses of a broker, master first."""
        known = self._known(broker_name)
        return tuple(known[number] for number in sorted(known))

    def master(self, broker_name: str) -> str:
        """The address of a master; RemotingError while only slaves of it are registered."""
        known = self._known(broker_name)
        if MASTER not in known:
            raise RemotingError(f"broker {broker_name} has no master that is registered with the name servers now")
        return known[MASTER]

    def figures(self, broker_name: str) -> dict[str, str]:
        """The runtime info of a broker's master."""
        asked = self._wire.ask(self.master(broker_name), RequestCode.GET_BROKER_RUNTIME_INFO)
        return KVTable.decode(self._run(asked).body).table

    def _known(self, broker_name: str) -> dict[int, str]:
        return self.routes.brokers.get(broker_name) or self._brokers.get(broker_name, {})

    def bounds(self, queues: Iterable[MessageQueue], *, required: bool = True) -> dict[MessageQueue, Bounds]:
        """First and end offset of each queue. An unreachable broker is an error, or left out."""
        return self._bounds_at(queues, self.addresses, required)

    def master_bounds(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Bounds]:
        """Like `bounds`, from masters only, since a slave may lag; queues of an unreachable master are left out."""

        def master(broker_name: str) -> tuple[str, ...]:
            known = self._known(broker_name)
            return (known[MASTER],) if MASTER in known else ()

        return self._bounds_at(queues, master, required=False)

    def _bounds_at(
        self, queues: Iterable[MessageQueue], where: Callable[[str], tuple[str, ...]], required: bool
    ) -> dict[MessageQueue, Bounds]:
        listed = list(queues)
        found = self._all([self._bounds(queue, where(queue.broker_name), required) for queue in listed])
        return {queue: bounds for queue, bounds in zip(listed, found, strict=True) if bounds is not None}

    async def _bounds(self, queue: MessageQueue, addresses: tuple[str, ...], required: bool) -> Bounds | None:
        first = GetMinOffsetRequest(queue.topic, queue.queue_id)
        end = GetMaxOffsetRequest(queue.topic, queue.queue_id)
        try:
            found = await asyncio.gather(
                self._offset(queue, RequestCode.GET_MIN_OFFSET, first, addresses),
                self._offset(queue, RequestCode.GET_MAX_OFFSET, end, addresses),
            )
            return Bounds(max(found[0], 0), max(found[1], 0))
        except RemotingError:
            if required:
                raise
            return None

    def ends(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The end offset of each queue; queues of an unreachable broker are left out."""
        listed = list(queues)

        async def end(queue: MessageQueue) -> int | None:
            header = GetMaxOffsetRequest(queue.topic, queue.queue_id)
            try:
                return await self._offset(queue, RequestCode.GET_MAX_OFFSET, header)
            except RemotingError:
                return None

        found = self._all([end(queue) for queue in listed])
        return {queue: offset for queue, offset in zip(listed, found, strict=True) if offset is not None}

    def master_ends(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Like `ends`, from masters only, since a slave may lag; RemotingError when one is unreachable."""
        listed = list(queues)

        async def end(queue: MessageQueue) -> int:
            header = GetMaxOffsetRequest(queue.topic, queue.queue_id)
            answer = await self._wire.ask(self.master(queue.broker_name), RequestCode.GET_MAX_OFFSET, header)
            return OffsetResponse.parse(answer.fields).offset

        return dict(zip(listed, self._all([end(queue) for queue in listed]), strict=True))

    def search(self, queues: Iterable[MessageQueue], timestamp: int) -> dict[MessageQueue, int]:
        """An offset of each queue stored near that time: Apache's brokers answer with the nearest message."""
        listed = list(queues)

        async def near(queue: MessageQueue) -> int:
            header = SearchOffsetRequest(queue.topic, queue.queue_id, timestamp)
            return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

        return dict(zip(listed, self._all([near(queue) for queue in listed]), strict=True))

    def committed(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The committed offsets of a group, where it has any."""
        listed = list(queues)

        async def offset(queue: MessageQueue) -> int | None:
            header = QueryConsumerOffsetRequest(group, queue.topic, queue.queue_id)
            expect = (SUCCESS, ResponseCode.QUERY_NOT_FOUND)
            response = await self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, header, expect)
            return OffsetResponse.parse(response).offset if "offset" in response else None

        found = self._all([offset(queue) for queue in listed])
        return {queue: at for queue, at in zip(listed, found, strict=True) if at is not None}

    def all_committed(self) -> dict[str, dict[MessageQueue, int]]:
        """The committed offsets of all groups, from every master. Asked for one queue, brokers answer 0 for none."""
        self.find_brokers()
        found: dict[str, dict[MessageQueue, int]] = {}
        for name, known in self._brokers.items():
            if MASTER not in known:
                continue
            body = self._run(self._wire.ask(known[MASTER], RequestCode.GET_ALL_CONSUMER_OFFSET)).body
            for key, offsets in ConsumerOffsetTable.decode(body).offset_table.items():
                topic, _, group = key.partition("@")
                queues = found.setdefault(group, {})
                queues |= {MessageQueue(topic, name, number): offset for number, offset in offsets.items()}
        return found

    def commit(self, group: str, offsets: dict[MessageQueue, int]) -> None:
        """Commit offsets of a group."""

        async def set_one(queue: MessageQueue, offset: int) -> None:
            header = UpdateConsumerOffsetRequest(group, queue.topic, queue.queue_id, offset)
            await self._ask(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

        self._all([set_one(queue, offset) for queue, offset in offsets.items()])

    async def _offset(
        self, queue: MessageQueue, code: RequestCode, header: Header, addresses: tuple[str, ...] | None = None
    ) -> int:
        return OffsetResponse.parse(await self._ask(queue, code, header, addresses=addresses)).offset

    async def _ask(
        self,
        queue: MessageQueue,
        code: RequestCode,
        header: Header,
        expect: tuple[int, ...] = (SUCCESS,),
        addresses: tuple[str, ...] | None = None,
    ) -> dict[str, str]:
        """Ask the master, then the slaves; or the given addresses in turn."""
        failure: RemotingError | BrokerRefused | None = None
        for address in self.addresses(queue.broker_name) if addresses is None else addresses:
            try:
                return (await self._wire.ask(address, code, header, expect=expect)).fields
            except RemotingError as error:
                failure = error
        raise failure or RemotingError(f"broker {queue.broker_name} is not registered with the name servers now")
