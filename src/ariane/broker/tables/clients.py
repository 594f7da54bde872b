"""The connected producers and consumers by group, as registered by heartbeats."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ariane.broker.seldom_log import SeldomLog
from ariane.broker.tables.consistency import Inconsistency, compare
from ariane.env import Clock
from ariane.protocol.bodies import ConsumerData, SubscriptionData
from ariane.protocol.codes import ResponseCode
from ariane.remoting import Connection, LimitExceeded, Reason, account_of

log = logging.getLogger("ariane.broker")

EXPIRY = 120.0  # seconds without a heartbeat after which a client is gone

GroupChanged = Callable[["ConsumerGroup"], None]


@dataclass(slots=True)
class ClientInfo:
    """One client on one connection."""

    connection: Connection
    client_id: str
    language: str
    version: int
    last_update_ms: int = 0
    """Time of the last heartbeat, as operators see it."""
    last_heartbeat: float = 0.0
    """The same by the monotonic clock, which decides when the client is gone."""
    subscriptions: list[SubscriptionData] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroup:
    """The members of a consumer group, and its subscriptions: the newest that any member sent."""

    name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    members: dict[Connection, ClientInfo] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)

    def client_ids(self) -> list[str]:
        """The ids of the members."""
        return [member.client_id for member in self.members.values()]

    def find(self, client_id: str) -> ClientInfo | None:
        """The member with an id."""
        return next((m for m in self.members.values() if m.client_id == client_id), None)

    def join(self, client: ClientInfo, data: ConsumerData) -> bool:
        """Apply a member's heartbeat; True when members or subscriptions changed."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
        known = self.members.get(client.connection)
        self.members[client.connection] = client
        changed = self._subscribe(data.subscription_data_set)
        return changed or known is None or known.client_id != client.client_id

    def _subscribe(self, wanted: Iterable[SubscriptionData]) -> bool:
        changed = False
        topics = set()
        for new in wanted:
            topics.add(new.topic)
            old = self.subscriptions.get(new.topic)
            if old is None or new.sub_version > old.sub_version:
                self.subscriptions[new.topic] = new
                changed = changed or old is None or _expression(old) != _expression(new)
        for topic in [t for t in self.subscriptions if t not in topics]:
            del self.subscriptions[topic]
            changed = True
        return changed


def _expression(subscription: SubscriptionData) -> tuple[str, str]:
    return subscription.expression_type, subscription.sub_string


@dataclass(frozen=True)
class ClientLimits:
    """How many clients there may be; a client that is in two groups counts twice."""

    in_all: int = 200_000
    per_account: int = 100_000
    groups: int = 1000
    """Groups of one connection."""


class ClientTable:
    """All connected clients. `on_change` is called when members or subscriptions of a group change."""

    def __init__(self, clock: Clock, limits: ClientLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._count = 0  # groups of all connections
        self._of_account: Counter[str] = Counter()
        self._account: dict[Connection, str] = {}
        self._differing = SeldomLog(log, clock)
        self._producers: dict[str, dict[Connection, ClientInfo]] = {}
        self._by_id: dict[str, dict[tuple[Connection, str], ClientInfo]] = {}  # producers, the first comer first
        self._consumers: dict[str, ConsumerGroup] = {}
        self._groups: dict[Connection, tuple[set[str], set[str]]] = {}  # as producer, as consumer
        self._inconsistent: dict[str, Inconsistency] = {}
        self.inconsistencies_seen = 0
        """How often a group was found to have members with different subscriptions; each change counts once."""
        self.on_change: list[GroupChanged] = []
        self.on_heartbeat: list[GroupChanged] = []
        self.on_gone: list[Callable[[str], None]] = []

    # Producers.

    def register_producer(self, group: str, client: ClientInfo) -> None:
        """Add a producer, or renew it."""
        if not client.connection.is_open:
            return  # already closed
        self._seen(client)
        self._enter(client.connection, group, 0)
        members = self._producers.setdefault(group, {})
        known = members.get(client.connection)
        if known is not None and known.client_id != client.client_id:
            self._forget_id(known, group)
        members[client.connection] = client
        self._by_id.setdefault(client.client_id, {})[client.connection, group] = client

    def unregister_producer(self, group: str, connection: Connection) -> None:
        """Remove a producer."""
        members = self._producers.get(group, {})
        client = members.pop(connection, None)
        if client is None:
            return
        self._forget_id(client, group)
        if not members:
            del self._producers[group]
        self._leave(connection, group, 0)

    def producers(self, group: str) -> list[ClientInfo]:
        """The connected producers of a group."""
        return list(self._producers.get(group, {}).values())

    def producer_groups(self) -> dict[str, list[ClientInfo]]:
        """All connected producers by group."""
        return {group: list(members.values()) for group, members in self._producers.items()}

    def find_producer(self, client_id: str) -> ClientInfo | None:
        """The producer with an id, in any group: the target of a reply. Who takes the id of another one gets none."""
        return next(iter(self._by_id.get(client_id, {}).values()), None)

    def _forget_id(self, client: ClientInfo, group: str) -> None:
        same = self._by_id[client.client_id]
        del same[client.connection, group]
        if not same:
            del self._by_id[client.client_id]

    # Consumers.

    def register_consumer(self, client: ClientInfo, data: ConsumerData) -> bool:
        """Apply a consumer's heartbeat; True when it changed its group."""
        if not client.connection.is_open:
            return False
        group = self._consumers.get(data.group_name)
        if group is None:
            group = ConsumerGroup(data.group_name, data.consume_type, data.message_model, data.consume_from_where)
            self._consumers[data.group_name] = group
        member = ClientInfo(client.connection, client.client_id, client.language, client.version)
        self._seen(member)
        self._enter(member.connection, group.name, 1)
        member.subscriptions = data.subscription_data_set
        known = group.members.get(member.connection)
        changed = group.join(member, data)
        if known is None or known.client_id != member.client_id or known.subscriptions != member.subscriptions:
            self._check_consistency(group)
        for listener in self.on_heartbeat:
            listener(group)
        if changed:
            self._tell(group)
        return changed

    def unregister_consumer(self, group_name: str, connection: Connection) -> None:
        """Remove a consumer from its group."""
        group = self._consumers.get(group_name)
        if group is None or group.members.pop(connection, None) is None:
            return
        self._leave(connection, group_name, 1)
        self._member_left(group)

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """A group with connected consumers."""
        return self._consumers.get(group)

    def consumer_groups(self) -> list[ConsumerGroup]:
        """All groups with connected consumers."""
        return list(self._consumers.values())

    def groups_of(self, topic: str) -> set[str]:
        """Groups with connected consumers that subscribe to a topic."""
        return {group.name for group in self._consumers.values() if topic in group.subscriptions}

    def inconsistencies(self) -> list[Inconsistency]:
        """Groups whose members have different subscriptions."""
        return list(self._inconsistent.values())

    # Leaving.

    def check_room(self, connection: Connection, groups: Iterable[str]) -> None:
        """Raise LimitExceeded if a connection may not join these groups as well."""
        producer, consumer = self._groups.get(connection, ((), ()))
        known = {*producer, *consumer}
        new = len({*known, *groups}) - len(known)
        limits = self._limits
        if not new:
            return
        if len(known) + new > limits.groups:
            reason = Reason.GROUPS_PER_CONNECTION
            remark = f"one connection may be in at most {limits.groups} groups (clientGroupMax)"
        elif self._count + new > limits.in_all:
            reason, remark = Reason.CLIENTS, f"the broker has {self._count} clients in groups (clientMax)"
        elif self._of_account[account_of(connection)] + new > limits.per_account:
            reason = Reason.CLIENTS_PER_ACCOUNT
            remark = f"{account_of(connection)} has {limits.per_account} clients in groups (clientPerAccountMax)"
        else:
            return
        raise LimitExceeded(reason, ResponseCode.SYSTEM_ERROR, f"{remark}; close clients that are not used")

    def connection_closed(self, connection: Connection) -> None:
        """Remove the clients of a connection; cost is proportional to its own groups."""
        producer, consumer = self._groups.get(connection, ((), ()))
        for group in list(producer):
            self.unregister_producer(group, connection)
        for group in list(consumer):
            self.unregister_consumer(group, connection)

    def expire(self) -> None:
        """Close the connections of clients that sent no heartbeat for two minutes."""
        oldest = self._clock.monotonic() - EXPIRY
        for connection in {c.connection for c in self._all() if c.last_heartbeat < oldest}:
            log.warning("client on %s sent no heartbeat for %d s", connection.peer, EXPIRY)
            connection.close("no heartbeat")
            self.connection_closed(connection)

    def _seen(self, client: ClientInfo) -> None:
        client.last_update_ms = self._clock.now_ms()
        client.last_heartbeat = self._clock.monotonic()

    def _enter(self, connection: Connection, group: str, role: int) -> None:
        """Note that a connection is in a group, as producer (0) or consumer (1)."""
        groups = self._groups.get(connection)
        if groups is None:
            groups = self._groups[connection] = (set(), set())
            self._account[connection] = account_of(connection)
        if group not in groups[0] and group not in groups[1]:
            self._count += 1
            self._of_account[self._account[connection]] += 1
        groups[role].add(group)

    def _leave(self, connection: Connection, group: str, role: int) -> None:
        groups = self._groups[connection]
        groups[role].discard(group)
        if group in groups[1 - role]:
            return
        account = self._account[connection]
        self._count -= 1
        self._of_account[account] -= 1
        if not self._of_account[account]:
            del self._of_account[account]
        if not any(groups):
            del self._groups[connection], self._account[connection]

    def _all(self) -> Iterable[ClientInfo]:
        for members in self._producers.values():
            yield from members.values()
        for group in self._consumers.values():
            yield from group.members.values()

    def _member_left(self, group: ConsumerGroup) -> None:
        if not group.members:
            del self._consumers[group.name]
            self._inconsistent.pop(group.name, None)
            for gone in self.on_gone:
                gone(group.name)
        else:
            self._check_consistency(group)
        self._tell(group)

    def _tell(self, group: ConsumerGroup) -> None:
        for listener in self.on_change:
            listener(group)

    def _check_consistency(self, group: ConsumerGroup) -> None:
        found = compare(group.name, {member.client_id: member.subscriptions for member in group.members.values()})
        if found == self._inconsistent.get(group.name):
            return
        if found is None:
            del self._inconsistent[group.name]
            log.info("group %s: its members have the same subscriptions again", group.name)
        else:
            self._inconsistent[group.name] = found
            self.inconsistencies_seen += 1
            self._differing.warning("%s", found)
