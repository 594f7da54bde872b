"""Routes of topics: read from name servers, cached, and refreshed."""

import asyncio
import logging
from dataclasses import dataclass

import msgspec

from ariane.client.connect.name_servers import NameServers
from ariane.errors import BrokerRefused, ClientError, ProtocolError, RouteMissing
from ariane.message import RETRY_PREFIX, MessageQueue
from ariane.protocol.bodies import READ, WRITE, ClusterInfo, QueueData, TopicRouteData
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import GetRouteInfoRequest

log = logging.getLogger("ariane.client")

MASTER = 0


@dataclass(frozen=True)
class Route:
    """The queues of a topic, to write to and to read from."""

    topic: str
    data: TopicRouteData
    write_queues: tuple[MessageQueue, ...]
    read_queues: tuple[MessageQueue, ...]

    @classmethod
    def of(cls, topic: str, data: TopicRouteData) -> "Route":
        """Build a route; if there is an order configuration, it alone sets the queues to write to."""
        write = _ordered_queues(topic, data.order_topic_conf) if data.order_topic_conf else _writable(topic, data)
        read = [
            MessageQueue(topic, queues.broker_name, i)
            for queues in data.queue_datas
            if queues.perm & READ
            for i in range(queues.read_queue_nums)
        ]
        return cls(topic, data, tuple(write), tuple(read))

    def write_queue_count(self, broker_name: str) -> int:
        """The number of queues of a broker to write to; 0 when it is not in the route."""
        return next((q.write_queue_nums for q in self.data.queue_datas if q.broker_name == broker_name), 0)


def _ordered_queues(topic: str, conf: str) -> list[MessageQueue]:
    """`broker-a:4;broker-b:4`."""
    queues: list[MessageQueue] = []
    for part in conf.split(";"):
        name, _, number = part.partition(":")
        if number.strip().isdigit():
            queues += [MessageQueue(topic, name, i) for i in range(int(number))]
    return queues


def _writable(topic: str, data: TopicRouteData) -> list[MessageQueue]:
    masters = {broker.broker_name for broker in data.broker_datas if MASTER in broker.broker_addrs}
    return [
        MessageQueue(topic, queues.broker_name, i)
        for queues in sorted(data.queue_datas, key=lambda queues: queues.broker_name)
        if queues.perm & WRITE and queues.broker_name in masters
        for i in range(queues.write_queue_nums)
    ]


def _narrow(data: TopicRouteData, most: int) -> TopicRouteData:
    """The route that a topic will have once a broker has created it from a template topic."""

    def narrow(queues: QueueData) -> QueueData:
        count = min(most, queues.read_queue_nums)
        return msgspec.structs.replace(queues, read_queue_nums=count, write_queue_nums=count)

    return msgspec.structs.replace(data, queue_datas=[narrow(queues) for queues in data.queue_datas])


class Routes:
    """The routes in use. A route is valid until a name server returns another one."""

    def __init__(self, names: NameServers) -> None:
        self.names = names
        self._routes: dict[str, Route] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._cluster: dict[str, dict[int, str]] = {}
        self._asking: dict[str, asyncio.Task[Route]] = {}

    @property
    def brokers(self) -> dict[str, dict[int, str]]:
        """Addresses by broker name and id, of all routes in use and, after `keep_cluster`, of the whole cluster."""
        return self._cluster | self._brokers

    def keep_cluster(self, info: ClusterInfo) -> None:
        """Treat all brokers of the cluster as in use."""
        self._cluster = {name: broker.broker_addrs for name, broker in info.broker_addr_table.items()}

    def known(self, topic: str) -> Route | None:
        """The cached route."""
        return self._routes.get(topic)

    async def find(self, topic: str) -> Route:
        """The route, read when it is not cached; RouteMissing or NameServersUnreachable."""
        return self._routes.get(topic) or await self.refresh(topic)

    async def find_to_publish(self, topic: str, model_topic: str, queues: int) -> Route:
        """Like `find`; a topic that does not exist yet gets the route of the topic from which brokers create it."""
        route = self._routes.get(topic)
        if route is not None and route.write_queues:
            return route
        try:
            route = await self.refresh(topic)
        except RouteMissing as missing:
            route = await self._after_model(topic, model_topic, queues, missing)
        return route

    async def _after_model(self, topic: str, model_topic: str, queues: int, missing: RouteMissing) -> Route:
        try:
            data = await self._ask(model_topic)
        except RouteMissing:
            raise missing from None
        return self._keep(topic, _narrow(data, queues))

    async def refresh(self, topic: str) -> Route:
        """Read the route from a name server. Concurrent callers share one request."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(self._refresh(topic))
            self._asking[topic] = asking
            asking.add_done_callback(lambda task: self._asked(topic, task))
        return await asyncio.shield(asking)

    def _asked(self, topic: str, task: asyncio.Task[Route]) -> None:
        self._asking.pop(topic, None)
        if not task.cancelled():
            task.exception()  # mark the exception as retrieved: all callers may have been cancelled

    async def refresh_quietly(self, topic: str) -> bool:
        """Refresh; False when that failed, and the cached route stays."""
        try:
            await self.refresh(topic)
        except (ClientError, BrokerRefused, ProtocolError) as error:
            if not topic.startswith(RETRY_PREFIX):
                log.info("cannot refresh the route of %s: %s", topic, error)
            return False
        return True

    async def refresh_all(self) -> None:
        """Refresh every topic in use, and drop brokers that are in no route any more."""
        for topic in list(self._routes):
            await self.refresh_quietly(topic)
        named = {broker.broker_name for route in self._routes.values() for broker in route.data.broker_datas}
        self._brokers = {name: addresses for name, addresses in self._brokers.items() if name in named}

    async def _refresh(self, topic: str) -> Route:
        return self._keep(topic, await self._ask(topic))

    async def _ask(self, topic: str) -> TopicRouteData:
        header = GetRouteInfoRequest(topic, accept_standard_json_only=True)
        found = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
        response = await self.names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, expect=found)
        if response.code == ResponseCode.TOPIC_NOT_EXIST:
            raise RouteMissing(
                f"no route to topic {topic}: name server {self.names.current} knows no broker that serves it "
                "(create the topic, or check that its brokers are up and registered there)"
            )
        return TopicRouteData.decode(response.body)

    def _keep(self, topic: str, data: TopicRouteData) -> Route:
        for broker in data.broker_datas:
            self._brokers[broker.broker_name] = broker.broker_addrs
        old = self._routes.get(topic)
        if old is not None and old.data == data:
            return old
        route = Route.of(topic, data)
        self._routes[topic] = route
        return route

    def _addresses(self, broker_name: str) -> dict[int, str]:
        return self._brokers.get(broker_name) or self._cluster.get(broker_name, {})

    def master(self, broker_name: str) -> str | None:
        """The address to write to."""
        return self._addresses(broker_name).get(MASTER)

    def reader(self, broker_name: str, broker_id: int) -> tuple[str, bool] | None:
        """An address to read from and whether it is a slave: the wanted one, else any of the broker."""
        addresses = self._addresses(broker_name)
        if not addresses:
            return None
        if broker_id in addresses:
            return addresses[broker_id], broker_id != MASTER
        if MASTER not in addresses or broker_id == MASTER:
            other = min(addresses)
            return addresses[other], other != MASTER
        return addresses[MASTER], False
