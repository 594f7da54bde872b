"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: queues for ordered consuming."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.names import check_group
from ariane.broker.request_bodies import body_of
from ariane.protocol.bodies import LockBatchRequestBody, LockBatchResponseBody, QueueKey
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker


def handlers(broker: Broker) -> dict[int, Handler]:
    locks = broker.locks

    def lock(_: Connection, request: Command) -> Command:
        body = body_of(LockBatchRequestBody, request)
        group = check_group(body.consumer_group)
        if broker.groups.find(group, auto_create=broker.options.auto_create_subscription_group) is None:
            return request.reply(body=LockBatchResponseBody([]).encode())
        queues = [key.queue() for key in body.mq_set if broker.queues.exists(key.topic, key.queue_id)]
        held = locks.lock(group, queues, body.client_id)
        return request.reply(body=LockBatchResponseBody([QueueKey.of(queue) for queue in held]).encode())

    def unlock(_: Connection, request: Command) -> Command:
        body = body_of(LockBatchRequestBody, request)
        locks.unlock(body.consumer_group, [key.queue() for key in body.mq_set], body.client_id)
        return request.reply()

    return {RequestCode.LOCK_BATCH_MQ: lock, RequestCode.UNLOCK_BATCH_MQ: unlock}
