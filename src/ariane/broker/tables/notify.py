"""Telling the members of a group that its membership changed, so that they rebalance at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.tables.clients import ConsumerGroup
from ariane.errors import RemotingError
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import NotifyConsumerIdsChangedRequest

if TYPE_CHECKING:
    from ariane.broker.server import Broker


class MemberNotices:
    """Sends NOTIFY_CONSUMER_IDS_CHANGED unless broker or group have it switched off."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        broker.clients.on_change.append(self.changed)

    def changed(self, group: ConsumerGroup) -> None:
        config = self._broker.groups.get(group.name)
        wanted = config is None or config.notify_consumer_ids_changed_enable
        if not wanted or not self._broker.options.notify_consumer_ids_changed_enable:
            return
        fields = NotifyConsumerIdsChangedRequest(group.name).fields()
        for connection in list(group.members):
            try:
                connection.oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields))
            except RemotingError:
                continue  # its closing is on the way to us and will change the group once more
