"""Consumer groups as operators manage them: create, change, list, delete."""

from __future__ import annotations

from ariane.broker.config.live import LiveOptions
from ariane.broker.refusals import not_on_a_slave
from ariane.broker.request_bodies import body_of
from ariane.broker.role import Role
from ariane.broker.stats import BrokerStats
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.persistence import KeptTable
from ariane.errors import ResponseError
from ariane.protocol.bodies import SubscriptionGroupConfig
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import DeleteSubscriptionGroupRequest
from ariane.remoting import Connection

_MOST_RETRY_QUEUES = 1 << 16
_INT_MAX = (1 << 31) - 1


class AdminGroupsHandler:
    """Configuration of groups."""

    def __init__(
        self,
        groups: GroupTable,
        groups_file: KeptTable,
        offsets: OffsetTable,
        offsets_file: KeptTable,
        stats: BrokerStats,
        role: Role,
        options: LiveOptions,
    ) -> None:
        self._groups = groups
        self._groups_file = groups_file
        self._offsets = offsets
        self._offsets_file = offsets_file
        self._stats = stats
        self._role = role
        self._options = options

    async def update(self, _: Connection, request: Command) -> Command:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: create a group or change it."""
        if self._role.is_slave:
            raise not_on_a_slave()
        config = body_of(SubscriptionGroupConfig, request)
        _check(config)
        self._groups.update(config)
        await self._groups_file.confirm()
        return request.reply()

    def all(self, _: Connection, request: Command) -> Command:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: every group."""
        return request.reply(body=self._groups.table().encode())

    async def delete(self, _: Connection, request: Command) -> Command:
        """DELETE_SUBSCRIPTIONGROUP: remove a group; online members create it again where options allow that."""
        if self._role.is_slave:
            raise not_on_a_slave()
        header = DeleteSubscriptionGroupRequest.parse(request.fields)
        self._groups.delete(header.group_name)
        if header.remove_offset:
            self._offsets.remove_group(header.group_name)
        if self._options.current.auto_delete_unused_stats:
            self._stats.group_deleted(header.group_name)
        await self._groups_file.confirm()
        if header.remove_offset:
            await self._offsets_file.confirm_copies()
        return request.reply()


def _check(config: SubscriptionGroupConfig) -> None:
    """Refuse numbers that would cause a failure only later, outside of this request."""
    if not 0 <= config.retry_queue_nums <= _MOST_RETRY_QUEUES:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{config.retry_queue_nums} retry queues are out of range")
    if not -1 <= config.retry_max_times <= _INT_MAX:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{config.retry_max_times} retries are out of range")
