"""HEART_BEAT, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG, GET_CONSUMER_LIST_BY_GROUP: who is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.names import check_group
from ariane.broker.request_bodies import body_of
from ariane.broker.tables.clients import MOST_GROUPS, ClientInfo
from ariane.errors import ResponseError
from ariane.filter import FilterBusy, FilterSyntaxError, compile_filter, is_tag_type
from ariane.message import retry_topic
from ariane.protocol.bodies import CheckClientRequestBody, ConsumerData, ConsumerIdList, HeartbeatData
from ariane.protocol.bodies.topics import UNIT_SUB
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import GetConsumerListByGroupRequest, UnregisterClientRequest
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

_LONGEST_HEARTBEAT = 1 << 20  # bytes: what is in a heartbeat is kept as long as its connection


class ClientsHandler:
    """Keeps the table of clients."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._clients = broker.clients

    def heartbeat(self, connection: Connection, request: Command) -> Command:
        """Renew the producers and consumers of a connection."""
        if len(request.body) > _LONGEST_HEARTBEAT:
            remark = f"a heartbeat of {len(request.body)} bytes is longer than {_LONGEST_HEARTBEAT}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        data = body_of(HeartbeatData, request)
        groups = [c.group_name for c in data.consumer_data_set] + [p.group_name for p in data.producer_data_set]
        for group in groups:
            check_group(group)
        if not self._clients.may_join(connection, groups):
            remark = f"one connection may be in at most {MOST_GROUPS} groups; close clients that are not used"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        client = ClientInfo(connection, data.client_id, request.language, request.version)
        for consumer in data.consumer_data_set:
            self._ensure_retry_topic(consumer)
            self._clients.register_consumer(client, consumer)
        for producer in data.producer_data_set:
            self._clients.register_producer(producer.group_name, client)
        return request.reply()

    def _ensure_retry_topic(self, consumer: ConsumerData) -> None:
        """Create the retry topic of a group; a group that may not exist has none, and its pulls are refused."""
        options = self._broker.options
        try:
            config = self._broker.groups.find(consumer.group_name, auto_create=options.auto_create_subscription_group)
        except ResponseError:
            return
        if config is not None:
            sys_flag = UNIT_SUB if consumer.unit_mode else 0
            self._broker.topics.ensure(retry_topic(consumer.group_name), config.retry_queue_nums, sys_flag=sys_flag)

    def unregister(self, connection: Connection, request: Command) -> Command:
        header = UnregisterClientRequest.parse(request.fields)
        if header.producer_group is not None:
            self._clients.unregister_producer(header.producer_group, connection)
        if header.consumer_group is not None:
            self._clients.unregister_consumer(header.consumer_group, connection)
        return request.reply()

    def check_config(self, _: Connection, request: Command) -> Command:
        """Tell a consumer at its start whether its expression can be understood."""
        subscription = body_of(CheckClientRequestBody, request).subscription_data
        kind = subscription.expression_type
        if is_tag_type(kind):
            return request.reply()
        if not self._broker.options.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {kind}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        try:
            compile_filter(self._broker.expressions, subscription.sub_string, kind)
        except FilterSyntaxError as error:
            raise ResponseError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
        except FilterBusy as error:
            raise ResponseError(ResponseCode.SYSTEM_BUSY, str(error)) from None
        return request.reply()

    def members(self, _: Connection, request: Command) -> Command:
        header = GetConsumerListByGroupRequest.parse(request.fields)
        group = self._clients.consumer_group(header.consumer_group)
        if group is None:
            remark = f"no consumer for this group, {header.consumer_group}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        return request.reply(body=ConsumerIdList(group.client_ids()).encode())


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = ClientsHandler(broker)
    return {
        RequestCode.HEART_BEAT: handler.heartbeat,
        RequestCode.UNREGISTER_CLIENT: handler.unregister,
        RequestCode.CHECK_CLIENT_CONFIG: handler.check_config,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: handler.members,
    }
