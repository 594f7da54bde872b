"""Groups and topics on the pull path: whether a group may pull is checked once, then cached."""

from __future__ import annotations

from ariane.broker.config.live import LiveOptions
from ariane.broker.refusals import FAQ
from ariane.broker.stats.counting import BrokerStats, GetCell
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.offsets import offset_key
from ariane.broker.tables.topics import TopicTable
from ariane.errors import ResponseError
from ariane.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from ariane.protocol.bodies.topics import READ
from ariane.protocol.codes import ResponseCode
from ariane.protocol.fast.pulling import PullKind
from ariane.remoting import Peer
from ariane.store import ConsumeQueue, MessageStore
from ariane.store.results import MessageFilter


class PullLane:
    """One queue that a group pulls, and the counters of its deliveries."""

    __slots__ = ("cell", "queue")

    def __init__(self, queue: ConsumeQueue | None, cell: GetCell) -> None:
        self.queue = queue
        self.cell = cell


class PullTarget:
    """A group, and a topic that it may pull from. `key` is that of its offsets.

    `filter` is the filter that pulls of the kind `filtered` carry.
    """

    __slots__ = ("_lanes", "_stats", "_store", "filter", "filtered", "group", "key", "read_queues", "topic")

    def __init__(
        self, group: SubscriptionGroupConfig, topic: TopicConfig, store: MessageStore, stats: BrokerStats
    ) -> None:
        self.group = group
        self.topic = topic
        self.key = offset_key(topic.topic_name, group.group_name)
        self.read_queues = topic.read_queue_nums
        self.filter: MessageFilter | None = None
        self.filtered: PullKind | None = None
        self._store = store
        self._stats = stats
        self._lanes: dict[int, PullLane] = {}

    def lane(self, queue_id: int) -> PullLane:
        """The lane of a queue, which must be one of the topic's."""
        lane = self._lanes.get(queue_id)
        if lane is None:
            cell = self._stats.get_cell(self.group.group_name, self.topic.topic_name, queue_id)
            lane = self._lanes[queue_id] = PullLane(None, cell)
        if lane.queue is None or lane.queue.dropped:
            lane.queue = self._store.table.get(self.topic.topic_name, queue_id)
        return lane


class PullTargets:
    """Cache of the groups that may pull from a topic; dropped when group, topic or options change."""

    def __init__(
        self, topics: TopicTable, groups: GroupTable, store: MessageStore, stats: BrokerStats, options: LiveOptions
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._store = store
        self._stats = stats
        self._options = options
        self._known: dict[str, dict[str, PullTarget]] = {}
        topics.on_change.append(lambda _: self.forget())
        groups.on_change.append(lambda _: self.forget())
        options.follow(lambda _: self.forget())

    def forget(self) -> None:
        """Check every group again, and find its filter again."""
        self._known.clear()

    def get(self, kind: PullKind, by: Peer) -> PullTarget:
        """The target of a pull; ResponseError when broker, group or topic do not allow it."""
        topics = self._known.get(kind.consumer_group)
        target = None if topics is None else topics.get(kind.topic)
        return self._check(kind, by) if target is None else target

    def _check(self, kind: PullKind, by: Peer) -> PullTarget:
        options = self._options.current
        if not options.broker_permission & READ:
            raise _forbidden(f"the broker[{options.broker_ip1}] pulling message is forbidden")
        auto_create = options.auto_create_subscription_group
        group = self._groups.find(kind.consumer_group, auto_create=auto_create, by=by)
        if group is None:
            remark = f"subscription group [{kind.consumer_group}] does not exist, {FAQ}"
            raise ResponseError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not group.consume_enable:
            raise _forbidden(f"subscription group no permission, {kind.consumer_group}")
        topic = self._topics.get(kind.topic)
        if topic is None:
            remark = f"topic[{kind.topic}] not exist, apply first please! {FAQ}"
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, remark)
        if not topic.perm & READ:
            raise _forbidden(f"the topic[{kind.topic}] pulling message is forbidden")
        target = PullTarget(group, topic, self._store, self._stats)
        self._known.setdefault(kind.consumer_group, {})[kind.topic] = target
        return target


def _forbidden(remark: str) -> ResponseError:
    return ResponseError(ResponseCode.NO_PERMISSION, remark)
