"""Whether a client may send to a topic, and what the send path must know of it. Asked once a topic, then kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ariane.broker.names import check_may_send, check_topic
from ariane.broker.send.put_status import failure
from ariane.errors import ResponseError
from ariane.message import RETRY_PREFIX
from ariane.protocol.bodies import TopicConfig
from ariane.protocol.bodies.topics import WRITE
from ariane.protocol.codes import ResponseCode
from ariane.protocol.fast.sending import SendKind
from ariane.protocol.units import MULTI_TAGS
from ariane.store import ConsumeQueue, PutStatus

if TYPE_CHECKING:
    from ariane.broker.server import Broker

FAQ: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."  # what clients print behind such errors

_UNIT: Final = 1  # bits of a topic's sys flag
_UNIT_SUB: Final = 2


class SendTarget:
    """A topic that may be sent to."""

    __slots__ = (
        "_broker",
        "_queues",
        "config",
        "is_new",
        "name",
        "queue_limit",
        "retry_group",
        "sys_flag",
        "write_queues",
    )

    def __init__(self, config: TopicConfig, is_new: bool, broker: Broker) -> None:
        # What every message touches comes first, so that it lies together in memory.
        self.queue_limit = max(config.write_queue_nums, config.read_queue_nums)
        self._queues: tuple[ConsumeQueue | None, ...] = (None,) * self.queue_limit
        self.is_new = is_new
        """Not on the disk yet: a crash now would leave messages that nobody can pull."""
        self.sys_flag = MULTI_TAGS if config.topic_filter_type == "MULTI_TAG" else 0
        self.retry_group = ""
        if config.topic_name.startswith(RETRY_PREFIX):
            self.retry_group = config.topic_name[len(RETRY_PREFIX) :]
        self.config = config
        self.name = config.topic_name.encode()
        self.write_queues = config.write_queue_nums
        self._broker = broker

    def queue(self, queue_id: int) -> ConsumeQueue:
        """Where messages go, and are counted."""
        queue = self._queues[queue_id]
        if queue is None or queue.dropped:
            queue = self._broker.store.table.find(self.name, queue_id)
            assert queue is not None  # its name was checked
            self._broker.stats.take_count(self.config.topic_name, queue_id, queue.puts)
            self._queues = (*self._queues[:queue_id], queue, *self._queues[queue_id + 1 :])
        return queue


class SendTargets:
    """The topics that were found fit for sending, forgotten when topics or options change."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._known: dict[str, SendTarget] = {}
        self._new: set[str] = set()
        broker.topics.on_change.append(lambda _: self._known.clear())
        broker.on_options.append(lambda _: self._known.clear())

    def get(self, topic: str) -> SendTarget | None:
        """The topic, if it was found fit."""
        return self._known.get(topic)

    def check(self, kind: SendKind) -> SendTarget:
        """The target of a send, made on first use; ResponseError when the topic may not be sent to."""
        self._check_broker()
        check_topic(kind.topic)
        check_may_send(kind.topic)
        config = self._broker.topics.get(kind.topic) or self._create(kind)
        if config is None:
            raise ResponseError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{kind.topic}] not exist, apply first please!{FAQ}"
            )
        if not config.perm & WRITE:
            raise ResponseError(ResponseCode.NO_PERMISSION, f"the topic[{kind.topic}] sending message is forbidden")
        target = SendTarget(config, kind.topic in self._new, self._broker)
        self._known[kind.topic] = target
        return target

    def _check_broker(self) -> None:
        """Apache refuses only ordered topics here and leaves the others to routes; a drained broker should drain."""
        options = self._broker.options
        if options.broker_role == "SLAVE":
            raise failure(self._broker, PutStatus.SERVICE_NOT_AVAILABLE)
        if not options.broker_permission & WRITE:
            raise ResponseError(
                ResponseCode.NO_PERMISSION, f"the broker[{options.broker_ip1}] sending message is forbidden"
            )

    def _create(self, kind: SendKind) -> TopicConfig | None:
        topics, retry = self._broker.topics, kind.topic.startswith(RETRY_PREFIX)
        sys_flag = (_UNIT_SUB if retry else _UNIT) if kind.unit_mode else 0
        created = topics.create_on_send(
            kind.topic,
            kind.default_topic,
            kind.default_topic_queue_nums,
            sys_flag,
            auto_create=self._broker.options.auto_create_topic_enable,
        )
        if created is None and retry:
            auto_create = self._broker.options.auto_create_subscription_group
            if self._broker.groups.find(kind.topic[len(RETRY_PREFIX) :], auto_create=auto_create) is None:
                return None  # a retry topic belongs to a group
            created = topics.ensure(kind.topic, 1, sys_flag=sys_flag)
        if created is not None:
            self._new.add(kind.topic)
            self._broker.persistence.topics.when_saved(lambda saved: self._saved(kind.topic, saved))
        return created

    def _saved(self, topic: str, saved: bool) -> None:
        """A topic whose write failed stays new: its sends wait for the next write."""
        if saved:
            self._new.discard(topic)
            self._known.pop(topic, None)
