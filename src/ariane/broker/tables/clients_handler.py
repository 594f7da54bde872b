"""HEART_BEAT, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG, GET_CONSUMER_LIST_BY_GROUP: the connected clients."""

from ariane.broker.config.live import LiveOptions
from ariane.broker.names import check_group
from ariane.broker.request_bodies import body_of
from ariane.broker.tables.clients import ClientInfo, ClientTable
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.topics import TopicTable
from ariane.errors import ResponseError
from ariane.filter import (
    EXPRESSION,
    WASM,
    ExpressionCompiler,
    FilterBusy,
    FilterSyntaxError,
    compile_filter,
    is_tag_type,
)
from ariane.message import TIMER_OPTION, retry_topic
from ariane.protocol.bodies import CheckClientRequestBody, ConsumerData, ConsumerIdList, HeartbeatData
from ariane.protocol.bodies.topics import UNIT_SUB
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import GetConsumerListByGroupRequest, UnregisterClientRequest
from ariane.remoting import Connection, LimitExceeded, Reason, Refusals


class ClientsHandler:
    """Registers clients, and lists them."""

    def __init__(
        self,
        clients: ClientTable,
        groups: GroupTable,
        topics: TopicTable,
        compiler: ExpressionCompiler,
        options: LiveOptions,
        refusals: Refusals,
    ) -> None:
        self._refusals = refusals
        self._clients = clients
        self._groups = groups
        self._topics = topics
        self._compiler = compiler
        self._options = options

    def heartbeat(self, connection: Connection, request: Command) -> Command:
        """Register or renew the producers and consumers of a connection."""
        most = self._options.current.heartbeat_max_bytes  # its content is kept as long as the connection
        if len(request.body) > most:
            remark = f"a heartbeat of {len(request.body)} bytes is longer than {most} (heartbeatMaxBytes)"
            raise LimitExceeded(Reason.HEARTBEAT, ResponseCode.SYSTEM_ERROR, remark)
        data = body_of(HeartbeatData, request)
        groups = [c.group_name for c in data.consumer_data_set] + [p.group_name for p in data.producer_data_set]
        for group in groups:
            check_group(group)
        self._clients.check_room(connection, groups)
        client = ClientInfo(connection, data.client_id, request.language, request.version)
        for consumer in data.consumer_data_set:
            self._ensure_retry_topic(connection, consumer)
            self._clients.register_consumer(client, consumer)
        for producer in data.producer_data_set:
            self._clients.register_producer(producer.group_name, client)
        if TIMER_OPTION in request.fields:  # requested by Ariane's client; brokers of 4.9 do not answer it
            enabled = "true" if self._options.current.timer_wheel_enable else "false"
            return request.reply(fields={TIMER_OPTION: enabled})
        return request.reply()

    def _ensure_retry_topic(self, connection: Connection, consumer: ConsumerData) -> None:
        """Create the retry topic of a group. A group that may not be created has none, and its pulls are refused."""
        group, auto_create = consumer.group_name, self._options.current.auto_create_subscription_group
        try:
            config = self._groups.find(group, auto_create=auto_create, by=connection)
        except LimitExceeded as error:
            self._refusals.count(error.reason)
            return
        if config is not None:
            sys_flag = UNIT_SUB if consumer.unit_mode else 0
            self._topics.ensure(retry_topic(group), config.retry_queue_nums, sys_flag=sys_flag)

    def unregister(self, connection: Connection, request: Command) -> Command:
        """Remove a client from its groups."""
        header = UnregisterClientRequest.parse(request.fields)
        if header.producer_group is not None:
            self._clients.unregister_producer(header.producer_group, connection)
        if header.consumer_group is not None:
            self._clients.unregister_consumer(header.consumer_group, connection)
        return request.reply()

    def check_config(self, _: Connection, request: Command) -> Command:
        """Tell a consumer at its start whether its expression compiles."""
        subscription = body_of(CheckClientRequestBody, request).subscription_data
        kind = subscription.expression_type
        if is_tag_type(kind) or kind == WASM:  # a module is checked when it is uploaded
            return request.reply()
        if not self._options.current.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {kind}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        try:
            if kind == EXPRESSION:
                self._compiler.compile_kind(subscription.sub_string, kind)
            else:
                compile_filter(self._compiler, subscription.sub_string, kind)
        except FilterSyntaxError as error:
            raise ResponseError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
        except FilterBusy as error:
            raise ResponseError(ResponseCode.SYSTEM_BUSY, str(error)) from None
        return request.reply()

    def members(self, _: Connection, request: Command) -> Command:
        """The client ids of a consumer group."""
        header = GetConsumerListByGroupRequest.parse(request.fields)
        group = self._clients.consumer_group(header.consumer_group)
        if group is None:
            remark = f"no consumer for this group, {header.consumer_group}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        return request.reply(body=ConsumerIdList(group.client_ids()).encode())
