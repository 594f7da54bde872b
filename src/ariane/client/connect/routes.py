"""Where topics live: routes asked of name servers, kept, and refreshed."""

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
    """The queues of a topic, as a producer and as a consumer see them."""

    topic: str
    data: TopicRouteData
    write_queues: tuple[MessageQueue, ...]
    read_queues: tuple[MessageQueue, ...]

    @classmethod
    def of(cls, topic: str, data: TopicRouteData) -> "Route":
        """Work the queues out; an order configuration decides alone where to write."""
        write = _ordered_queues(topic, data.order_topic_conf) if data.order_topic_conf else _writable(topic, data)
        read = [
            MessageQueue(topic, queues.broker_name, i)
            for queues in data.queue_datas
            if queues.perm & READ
            for i in range(queues.read_queue_nums)
        ]
        return cls(topic, data, tuple(write), tuple(read))

    def write_queue_count(self, broker_name: str) -> int:
        """How many queues a broker has to write to; none when it is not in the route."""
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
    """The route that a topic will have once a broker makes it after the model of another."""

    def narrow(queues: QueueData) -> QueueData:
        count = min(most, queues.read_queue_nums)
        return msgspec.structs.replace(queues, read_queue_nums=count, write_queue_nums=count)

    return msgspec.structs.replace(data, queue_datas=[narrow(queues) for queues in data.queue_datas])


class Routes:
    """The routes in use. What name servers said last stays true until one of them says otherwise."""

    def __init__(self, names: NameServers) -> None:
        self.names = names
        self._routes: dict[str, Route] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._cluster: dict[str, dict[int, str]] = {}
        self._asking: dict[str, asyncio.Task[Route]] = {}

    @property
    def brokers(self) -> dict[str, dict[int, str]]:
        """Addresses by broker name and id, of all routes in use, and of the whole cluster where that was asked for."""
        return self._cluster | self._brokers

    def keep_cluster(self, info: ClusterInfo) -> None:
        """Count all brokers of the cluster as in use, as name servers know them now."""
        self._cluster = {name: broker.broker_addrs for name, broker in info.broker_addr_table.items()}

    def known(self, topic: str) -> Route | None:
        """The route as it was heard last."""
        return self._routes.get(topic)

    async def find(self, topic: str) -> Route:
        """The route, asked for if it is not known; RouteMissing or NameServersUnreachable."""
        return self._routes.get(topic) or await self.refresh(topic)

    async def find_to_publish(self, topic: str, model_topic: str, queues: int) -> Route:
        """Like `find`; a topic that is not there yet gets the route of the topic that brokers make it after."""
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
        """Ask a name server, whatever is known. Callers at the same time share one question."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(self._refresh(topic))
            self._asking[topic] = asking
            asking.add_done_callback(lambda task: self._asked(topic, task))
        return await asyncio.shield(asking)

    def _asked(self, topic: str, task: asyncio.Task[Route]) -> None:
        self._asking.pop(topic, None)
        if not task.cancelled():
            task.exception()  # all who waited for it may have been cancelled: then the error is not for anybody

    async def refresh_quietly(self, topic: str) -> bool:
        """Refresh and say whether that went; a name server that is away changes nothing."""
        try:
            await self.refresh(topic)
        except (ClientError, BrokerRefused, ProtocolError) as error:
            if not topic.startswith(RETRY_PREFIX):
                log.info("the route of %s stays as it was: %s", topic, error)
            return False
        return True

    async def refresh_all(self) -> None:
        """Ask for every topic in use, and forget brokers that no route names any more."""
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

    def master(self, broker_name: str) -> str | None:
        """The address to write to."""
        return self._brokers.get(broker_name, {}).get(MASTER)

    def reader(self, broker_name: str, broker_id: int) -> tuple[str, bool] | None:
        """An address to read from and whether it is a slave's: the one wanted, else any of the broker."""
        addresses = self._brokers.get(broker_name)
        if not addresses:
            return None
        if broker_id in addresses:
            return addresses[broker_id], broker_id != MASTER
        if MASTER not in addresses or broker_id == MASTER:
            other = min(addresses)
            return addresses[other], other != MASTER
        return addresses[MASTER], False
