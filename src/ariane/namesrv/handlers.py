"""The handlers of the name server's requests."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from ariane.env import Clock
from ariane.errors import ResponseError, TooLarge
from ariane.namesrv.kv import ORDER_TOPIC_CONFIG, KvConfig
from ariane.namesrv.live_config import LiveConfig
from ariane.namesrv.routes import Broker, Routes, is_usable_name
from ariane.namesrv.turns import Turns
from ariane.protocol.bodies import DataVersion, KVTable, RegisterBrokerBody, TopicConfigTable, TopicList
from ariane.protocol.bodies.topics import UNIT, UNIT_SUB
from ariane.protocol.codes import V3_0_11, RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    AddWritePermOfBrokerRequest,
    AddWritePermOfBrokerResponse,
    DeleteKVConfigRequest,
    DeleteTopicFromNamesrvRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    GetKVListByNamespaceRequest,
    GetRouteInfoRequest,
    GetTopicsByClusterRequest,
    PutKVConfigRequest,
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
    WipeWritePermOfBrokerRequest,
    WipeWritePermOfBrokerResponse,
)
from ariane.protocol.units import body_crc
from ariane.remoting import Connection, Handler, LimitExceeded, Reason, parse_address
from ariane.remoting.admission import network_of

LARGE_COMPRESSED: Final = 1 << 8  # bytes of a compressed registration that is decoded off the loop
LARGE: Final = 1 << 18  # the same for an uncompressed one
WAITING_PER_ADDRESS: Final = 2  # limit of registrations waiting to be decoded, as a multiple of `registrationMaxBytes`
WAITING: Final = 16
LARGEST_CONFIG: Final = 1 << 16
SEE_FAQ: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."  # Java clients look for it

Registration = tuple[TopicConfigTable, list[str] | None]


class Handlers:
    """Handles the requests of a name server."""

    def __init__(self, routes: Routes, kv: KvConfig, config: LiveConfig, clock: Clock) -> None:
        self._routes = routes
        self._kv = kv
        self._config = config
        self._clock = clock
        self._encoded: dict[str, bytes] = {}
        self._encoded_at = (0, 0, False)
        self._decoding: dict[str, Command] = {}  # the last large registration of an address
        self._large: dict[Connection, tuple[str, int]] = {}  # address and number of large registrations
        self._turns = Turns()
        self._waiting: Counter[str] = Counter()  # bytes of large registrations by address

    def table(self) -> dict[int, Handler]:
        """Handlers by request code."""
        return {
            RequestCode.PUT_KV_CONFIG: self.put_kv,
            RequestCode.GET_KV_CONFIG: self.get_kv,
            RequestCode.DELETE_KV_CONFIG: self.delete_kv,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.kv_namespace,
            RequestCode.QUERY_DATA_VERSION: self.query_data_version,
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster_info,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_permission,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write_permission,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self._flagged(lambda flag: bool(flag & UNIT)),
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._flagged(lambda flag: bool(flag & UNIT_SUB)),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._flagged(
                lambda flag: flag & (UNIT | UNIT_SUB) == UNIT_SUB
            ),
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update_config,
            RequestCode.GET_NAMESRV_CONFIG: self.get_config,
        }

    # Brokers.

    def register(self, connection: Connection, request: Command) -> Command | Awaitable[Command]:
        """Register a broker. A large registration is decoded in a thread, one at a time, in turns by address."""
        header = RegisterBrokerRequest.parse(request.fields)
        broker = Broker(
            header.cluster_name,
            header.broker_name,
            header.broker_id,
            header.broker_addr,
            header.ha_server_addr,
            max(header.broker_epoch or 0, 0),
            bool(header.enable_acting_master),
        )
        _check_names(broker)
        if len(request.body) > (LARGE_COMPRESSED if header.compressed else LARGE):
            return self._register_large(connection, request, header, broker)
        self._decoding.pop(broker.address, None)
        table, filters = self._decode(request, header)
        return self._register(connection, request, broker, table, filters)

    async def _register_large(
        self, connection: Connection, request: Command, header: RegisterBrokerRequest, broker: Broker
    ) -> Command:
        address, running = self._large.get(connection, (broker.address, 0))
        if address != broker.address:
            remark = "a registration of this connection is being decoded: wait for its response before the next one"
            raise LimitExceeded(Reason.REGISTRATIONS_PER_CONNECTION, ResponseCode.SYSTEM_BUSY, remark)
        network, size = network_of(parse_address(connection.peer)[0]), len(request.body)
        self._check_room(network, size)
        self._decoding[broker.address] = request
        self._large[connection] = (address, running + 1)
        self._waiting[network] += size
        try:
            async with self._turns.turn(network):
                self._check_wanted(connection, request, broker)
                table, filters = await asyncio.to_thread(self._decode, request, header)
            self._check_wanted(connection, request, broker)
            return self._register(connection, request, broker, table, filters)
        finally:
            if self._decoding.get(broker.address) is request:
                del self._decoding[broker.address]
            self._waiting[network] -= size
            if not self._waiting[network]:
                del self._waiting[network]
            address, running = self._large.pop(connection)
            if running > 1:
                self._large[connection] = (address, running - 1)

    def _check_room(self, network: str, size: int) -> None:
        """Raise LimitExceeded if waiting registrations hold too much memory, of one address or in total."""
        most = self._config.options.registration_max_bytes
        if size > most:
            raise _too_large(f"has {size} bytes", most)
        own, all_of_them = self._waiting[network] + size, self._waiting.total() + size
        if own > WAITING_PER_ADDRESS * most or all_of_them > WAITING * most:
            remark = f"registrations of {all_of_them} bytes wait to be decoded: register again later"
            raise LimitExceeded(Reason.REGISTRATIONS_WAITING, ResponseCode.SYSTEM_BUSY, remark)

    def _check_wanted(self, connection: Connection, request: Command, broker: Broker) -> None:
        if self._decoding.get(broker.address) is not request or not connection.is_open:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, "a later request of the broker overtook this one")

    def _decode(self, request: Command, header: RegisterBrokerRequest) -> Registration:
        """Decode topics and filter servers of a registration; before 3.0.11 it had topics alone."""
        limit = self._config.options.registration_max_bytes
        if header.body_crc32 and header.body_crc32 != body_crc(request.body):
            raise ResponseError(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        if not request.body:
            return TopicConfigTable(), []
        if len(request.body) > limit:
            raise _too_large(f"has {len(request.body)} bytes", limit)
        if request.version < V3_0_11:
            return TopicConfigTable.decode_request(request.body), None
        if header.compressed:
            try:
                body = RegisterBrokerBody.decompress(request.body, limit)
            except TooLarge:
                raise _too_large("would have more bytes decompressed", limit) from None
        else:
            body = RegisterBrokerBody.decode_request(request.body)
        return body.topic_config_serialize_wrapper, body.filter_server_list

    def _register(
        self,
        connection: Connection,
        request: Command,
        broker: Broker,
        table: TopicConfigTable,
        filters: list[str] | None,
    ) -> Command:
        master = self._routes.register(broker, table, filters, self._clock.monotonic(), connection)
        answer = RegisterBrokerResponse()
        if master is not None:
            answer = RegisterBrokerResponse(master.ha_address, master.address, master.epoch or None)
        order = self._kv.namespace(ORDER_TOPIC_CONFIG)
        return request.reply(0, answer.fields(), b"" if order is None else KVTable(order).encode())

    def unregister(self, _: Connection, request: Command) -> Command:
        header = UnregisterBrokerRequest.parse(request.fields)
        self._decoding.pop(header.broker_addr, None)
        self._routes.unregister(Broker(header.cluster_name, header.broker_name, header.broker_id, header.broker_addr))
        return request.reply()

    def query_data_version(self, _: Connection, request: Command) -> Command:
        """Brokers send this before a registration; if their topics have not changed it serves as heartbeat."""
        header = QueryDataVersionRequest.parse(request.fields)
        known = self._routes.version(header.broker_addr)
        changed = known is None or known != DataVersion.decode_request(request.body)
        if not changed:
            self._routes.touch(header.broker_addr, self._clock.monotonic())
        return request.reply(0, QueryDataVersionResponse(changed).fields(), known.encode() if known else b"")

    # Routes.

    def route(self, _: Connection, request: Command) -> Command:
        topic = GetRouteInfoRequest.parse(request.fields).topic
        body = self._encoded_routes().get(topic) or self._encode_route(topic)
        if body is None:
            remark = f"No topic route info in name server for the topic: {topic}{SEE_FAQ}"
            return request.reply(ResponseCode.TOPIC_NOT_EXIST, remark=remark)
        return request.reply(0, body=body)

    def _encoded_routes(self) -> dict[str, bytes]:
        """Encoded routes, valid until a table changes: clients ask every 30 s, and mostly nothing has changed."""
        now = (self._routes.revision, self._kv.revision, self._config.options.order_message_enable)
        if now != self._encoded_at:
            self._encoded = {}
            self._encoded_at = now
        return self._encoded

    def _encode_route(self, topic: str) -> bytes | None:
        route = self._routes.route(topic)
        if route is None:
            return None
        if self._config.options.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPIC_CONFIG, topic)
        self._encoded[topic] = body = route.encode()
        return body

    def cluster_info(self, _: Connection, request: Command) -> Command:
        return request.reply(0, body=self._routes.cluster_info().encode())

    # Topics.

    def topics(self, _: Connection, request: Command) -> Command:
        return request.reply(0, body=TopicList(self._routes.topics()).encode())

    def topics_of_cluster(self, _: Connection, request: Command) -> Command:
        cluster = GetTopicsByClusterRequest.parse(request.fields).cluster
        return request.reply(0, body=TopicList(self._routes.topics_of_cluster(cluster)).encode())

    def system_topics(self, _: Connection, request: Command) -> Command:
        return request.reply(0, body=TopicList(*self._routes.system_topics()).encode())

    def _flagged(self, condition: Callable[[int], bool]) -> Handler:
        return lambda _, request: request.reply(0, body=TopicList(self._routes.topics_flagged(condition)).encode())

    def delete_topic(self, _: Connection, request: Command) -> Command:
        header = DeleteTopicFromNamesrvRequest.parse(request.fields)
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        return request.reply()

    def wipe_write_permission(self, _: Connection, request: Command) -> Command:
        broker = WipeWritePermOfBrokerRequest.parse(request.fields).broker_name
        count = self._routes.wipe_write_permission(broker)
        return request.reply(0, WipeWritePermOfBrokerResponse(count).fields())

    def add_write_permission(self, _: Connection, request: Command) -> Command:
        broker = AddWritePermOfBrokerRequest.parse(request.fields).broker_name
        count = self._routes.add_write_permission(broker)
        return request.reply(0, AddWritePermOfBrokerResponse(count).fields())

    # Configuration.

    async def put_kv(self, _: Connection, request: Command) -> Command:
        header = PutKVConfigRequest.parse(request.fields)
        await self._kv.put(header.namespace, header.key, header.value)
        return request.reply()

    def get_kv(self, _: Connection, request: Command) -> Command:
        header = GetKVConfigRequest.parse(request.fields)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            return request.reply(ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return request.reply(0, GetKVConfigResponse(value).fields())

    async def delete_kv(self, _: Connection, request: Command) -> Command:
        header = DeleteKVConfigRequest.parse(request.fields)
        await self._kv.delete(header.namespace, header.key)
        return request.reply()

    def kv_namespace(self, _: Connection, request: Command) -> Command:
        namespace = GetKVListByNamespaceRequest.parse(request.fields).namespace
        values = self._kv.namespace(namespace)
        if values is None:
            remark = f"No config item, Namespace: {namespace}"
            return request.reply(ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return request.reply(0, body=KVTable(values).encode())

    def get_config(self, _: Connection, request: Command) -> Command:
        return request.reply(0, body=self._config.text().encode())

    async def update_config(self, _: Connection, request: Command) -> Command:
        if len(request.body) > LARGEST_CONFIG:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"the configuration has more than {LARGEST_CONFIG} bytes")
        try:
            text = request.body.decode()
        except UnicodeDecodeError:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, "the configuration is not UTF-8") from None
        await self._config.update(text)
        return request.reply()


def _too_large(what: str, limit: int) -> LimitExceeded:
    remark = f"the registration {what}, at most {limit} (registrationMaxBytes)"
    return LimitExceeded(Reason.REGISTRATION_BYTES, ResponseCode.SYSTEM_ERROR, remark)


def _check_names(broker: Broker) -> None:
    for what, name in (("brokerName", broker.name), ("clusterName", broker.cluster), ("brokerAddr", broker.address)):
        if not is_usable_name(name):
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{what} {name!r} is not a name to register under")
