"""Topics on the send path: whether clients may send to one is checked once, then cached."""

from __future__ import annotations

from ariane.broker.config.live import LiveOptions
from ariane.broker.names import check_may_send, check_topic
from ariane.broker.refusals import FAQ, broker_is_read_only, topic_is_read_only
from ariane.broker.role import Role
from ariane.broker.send.answer import PutFailures
from ariane.broker.stats.counting import BrokerStats
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.persistence import KeptTable
from ariane.broker.tables.topics import TopicTable
from ariane.errors import ResponseError
from ariane.message import RETRY_PREFIX
from ariane.protocol.bodies import TopicConfig
from ariane.protocol.bodies.topics import UNIT, UNIT_SUB, WRITE
from ariane.protocol.codes import ResponseCode
from ariane.protocol.fast.sending import SendKind
from ariane.protocol.units import MULTI_TAGS
from ariane.remoting import Peer
from ariane.store import ConsumeQueue, MessageStore, PutStatus


class SendTarget:
    """A topic that clients may send to, and its queues."""

    __slots__ = (
        "_queues",
        "_stats",
        "_store",
        "config",
        "is_new",
        "name",
        "queue_limit",
        "retry_group",
        "sys_flag",
        "write_queues",
    )

    def __init__(self, config: TopicConfig, is_new: bool, store: MessageStore, stats: BrokerStats) -> None:
        # Fields used for every message come first, to share cache lines.
        self.queue_limit = max(config.write_queue_nums, config.read_queue_nums)
        self._queues: tuple[ConsumeQueue | None, ...] = (None,) * self.queue_limit
        self.is_new = is_new
        """True until the topic is on the disk: a crash before that leaves messages that cannot be pulled."""
        self.sys_flag = MULTI_TAGS if config.topic_filter_type == "MULTI_TAG" else 0
        self.retry_group = ""
        if config.topic_name.startswith(RETRY_PREFIX):
            self.retry_group = config.topic_name[len(RETRY_PREFIX) :]
        self.config = config
        self.name = config.topic_name.encode()
        self.write_queues = config.write_queue_nums
        self._store = store
        self._stats = stats

    def queue(self, queue_id: int) -> ConsumeQueue:
        """A queue below `queue_limit`, which counts what is put into it."""
        queue = self._queues[queue_id]
        if queue is None or queue.dropped:
            queue = self._store.table.find(self.name, queue_id)
            assert queue is not None  # its name was checked
            self._stats.take_count(self.config.topic_name, queue_id, queue.puts)
            self._queues = (*self._queues[:queue_id], queue, *self._queues[queue_id + 1 :])
        return queue


class SendTargets:
    """Cache of the topics that clients may send to; dropped when topics, options or the role change."""

    def __init__(
        self,
        topics: TopicTable,
        topics_file: KeptTable,
        groups: GroupTable,
        store: MessageStore,
        stats: BrokerStats,
        options: LiveOptions,
        role: Role,
        failures: PutFailures,
    ) -> None:
        self._topics = topics
        self._topics_file = topics_file
        self._groups = groups
        self._store = store
        self._stats = stats
        self._options = options
        self._role = role
        self._failures = failures
        self._known: dict[str, SendTarget] = {}
        self._new: set[str] = set()
        topics.on_change.append(lambda _: self._known.clear())
        options.follow(lambda _: self._known.clear())
        role.on_change(self._known.clear)

    def get(self, topic: str) -> SendTarget | None:
        """The target, if the topic was checked before."""
        return self._known.get(topic)

    def check(self, kind: SendKind, by: Peer) -> SendTarget:
        """The target of a send; the topic is created where options allow it. ResponseError says why there is none.

        Without write permission of the broker all sends are refused; Apache's broker refuses only ordered topics and
        relies on the routes for the rest.
        """
        options = self._options.current
        if self._role.is_slave:
            raise self._failures.of(PutStatus.SERVICE_NOT_AVAILABLE)
        if not options.broker_permission & WRITE:
            raise broker_is_read_only(options.broker_ip1)
        check_topic(kind.topic)
        check_may_send(kind.topic)
        config = self._topics.get(kind.topic) or self._create(kind, options.auto_create_topic_enable, by)
        if config is None:
            raise ResponseError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{kind.topic}] not exist, apply first please!{FAQ}"
            )
        if not config.perm & WRITE:
            raise topic_is_read_only(kind.topic)
        target = SendTarget(config, kind.topic in self._new, self._store, self._stats)
        self._known[kind.topic] = target
        return target

    def _create(self, kind: SendKind, auto_create: bool, by: Peer) -> TopicConfig | None:
        topics, retry = self._topics, kind.topic.startswith(RETRY_PREFIX)
        sys_flag = (UNIT_SUB if retry else UNIT) if kind.unit_mode else 0
        created = topics.create_on_send(
            kind.topic,
            kind.default_topic,
            kind.default_topic_queue_nums,
            sys_flag,
            auto_create=auto_create,
            by=by,
        )
        if created is None and retry:
            auto_create = self._options.current.auto_create_subscription_group
            if self._groups.find(kind.topic[len(RETRY_PREFIX) :], auto_create=auto_create, by=by) is None:
                return None  # a retry topic belongs to a group
            created = topics.ensure(kind.topic, 1, sys_flag=sys_flag)
        if created is not None:
            self._new.add(kind.topic)
            self._topics_file.when_saved(lambda saved: self._saved(kind.topic, saved))
        return created

    def _saved(self, topic: str, saved: bool) -> None:
        """A topic whose write failed stays new: its sends wait for the next write."""
        if saved:
            self._new.discard(topic)
            self._known.pop(topic, None)
