"""Topics as operators manage them: deleting, the system's own, and who consumes which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.names import check_not_system, check_topic
from ariane.errors import ResponseError
from ariane.protocol.bodies import GroupList
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.fastjson import dumps
from ariane.protocol.headers import DeleteTopicRequest, QueryTopicConsumeByWhoRequest
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker


def check_master(broker: Broker) -> None:
    """Topics and groups are changed on masters; slaves copy them."""
    if broker.options.broker_role == "SLAVE":
        remark = "Can't modify topic or subscription group from slave broker, please execute it from master broker."
        raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)


class AdminTopicsHandler:
    """Deletes and lists topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def delete(self, _: Connection, request: Command) -> Command:
        """Forget a topic, its queues and what groups committed in it: one of the same name begins anew."""
        broker = self._broker
        check_master(broker)
        topic = check_topic(DeleteTopicRequest.parse(request.fields).topic)
        check_not_system(topic, frozenset(broker.topics.system))
        broker.topics.delete(topic)
        broker.store.delete_topic(topic)
        broker.offsets.remove_topic(topic)
        if broker.options.auto_delete_unused_stats:
            broker.stats.topic_deleted(topic)
        await broker.persistence.topics.confirm()
        return request.reply()

    def system(self, _: Connection, request: Command) -> Command:
        return request.reply(body=dumps({"topicList": sorted(self._broker.topics.system)}))

    def consumed_by(self, _: Connection, request: Command) -> Command:
        """Groups that subscribe to a topic now, and those that have committed offsets in it."""
        topic = QueryTopicConsumeByWhoRequest.parse(request.fields).topic
        groups = self._broker.clients.groups_of(topic) | self._broker.offsets.groups_of(topic)
        return request.reply(body=GroupList(sorted(groups)).encode())


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = AdminTopicsHandler(broker)
    return {
        RequestCode.DELETE_TOPIC_IN_BROKER: handler.delete,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: handler.system,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: handler.consumed_by,
    }
