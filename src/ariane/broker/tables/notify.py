"""Telling the members of a group that its membership changed, so that they rebalance at once."""

from ariane.broker.config.live import LiveOptions
from ariane.broker.tables.clients import ClientTable, ConsumerGroup
from ariane.broker.tables.groups import GroupTable
from ariane.errors import RemotingError
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import NotifyConsumerIdsChangedRequest


class MemberNotices:
    """Sends NOTIFY_CONSUMER_IDS_CHANGED unless the broker or the group switched it off."""

    def __init__(self, clients: ClientTable, groups: GroupTable, options: LiveOptions) -> None:
        self._groups = groups
        self._options = options
        clients.on_change.append(self._changed)

    def _changed(self, group: ConsumerGroup) -> None:
        config = self._groups.get(group.name)
        wanted = config is None or config.notify_consumer_ids_changed_enable
        if not wanted or not self._options.current.notify_consumer_ids_changed_enable:
            return
        fields = NotifyConsumerIdsChangedRequest(group.name).fields()
        for connection in list(group.members):
            try:
                connection.oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields))
            except RemotingError:
                continue  # its close changes the group again
