"""Consumer groups as operators manage them: create, change, list, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.admin.topics import check_master
from ariane.broker.request_bodies import body_of
from ariane.errors import ResponseError
from ariane.protocol.bodies import SubscriptionGroupConfig
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import DeleteSubscriptionGroupRequest
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

_MOST_RETRY_QUEUES = 1 << 16
_INT_MAX = (1 << 31) - 1


class AdminGroupsHandler:
    """Configuration of groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def update(self, _: Connection, request: Command) -> Command:
        check_master(self._broker)
        config = body_of(SubscriptionGroupConfig, request)
        _check(config)
        self._broker.groups.update(config)
        await self._broker.persistence.groups.confirm()
        return request.reply()

    def all(self, _: Connection, request: Command) -> Command:
        return request.reply(body=self._broker.groups.table().encode())

    async def delete(self, _: Connection, request: Command) -> Command:
        """Forget a group; its members, if any are online, bring it back where groups come into being by use."""
        check_master(self._broker)
        header = DeleteSubscriptionGroupRequest.parse(request.fields)
        self._broker.groups.delete(header.group_name)
        if header.remove_offset:
            self._broker.offsets.remove_group(header.group_name)
        if self._broker.options.auto_delete_unused_stats:
            self._broker.stats.group_deleted(header.group_name)
        await self._broker.persistence.groups.confirm()
        return request.reply()


def _check(config: SubscriptionGroupConfig) -> None:
    """Numbers that the broker could not work with later, when nobody would know why."""
    if not 0 <= config.retry_queue_nums <= _MOST_RETRY_QUEUES:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{config.retry_queue_nums} retry queues are out of range")
    if not -1 <= config.retry_max_times <= _INT_MAX:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{config.retry_max_times} retries are out of range")


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = AdminGroupsHandler(broker)
    return {
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: handler.update,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: handler.all,
        RequestCode.DELETE_SUBSCRIPTIONGROUP: handler.delete,
    }
