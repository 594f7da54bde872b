"""Bodies about groups: heartbeats, subscriptions, connections, offsets, queue locks."""

from typing import Any, Self

import msgspec

from ariane.protocol.bodies.body import Body, QueueKey
from ariane.protocol.bodies.topics import DataVersion
from ariane.protocol.java import string_hash

ALL_TAGS = "*"

# Java's enums in their order: the C++ client writes the index of a value instead of its name.
_ENUMS = {
    "consumeType": ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY"),
    "messageModel": ("BROADCASTING", "CLUSTERING"),
    "consumeFromWhere": (
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
    ),
}


class SubscriptionData(Body):
    """The subscription of a consumer to a topic."""

    topic: str
    sub_string: str = ALL_TAGS
    tags_set: list[str] = []
    code_set: list[int] = []
    sub_version: int = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False
    filter_class_source: str | None = None

    @classmethod
    def build(cls, topic: str, expression: str, version: int, expression_type: str = "TAG") -> "SubscriptionData":
        """A subscription from its text: `*`, or `TagA || TagB`, or an SQL92 expression.

        >>> SubscriptionData.build("orders", "TagA || TagB", 1).tags_set
        ['TagA', 'TagB']
        """
        if expression_type != "TAG":
            return cls(topic, expression, sub_version=version, expression_type=expression_type)
        if not expression or expression == ALL_TAGS:
            return cls(topic, ALL_TAGS, sub_version=version)
        tags = list(dict.fromkeys(tag.strip() for tag in expression.split("||") if tag.strip()))
        return cls(topic, expression, tags, [string_hash(tag) for tag in tags], version)


class ProducerData(Body):
    group_name: str


class ConsumerData(Body):
    """A consumer group as one client sees it."""

    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class HeartbeatData(Body):
    """The heartbeat of a client, sent to every broker every 30 s."""

    client_id: str = msgspec.field(name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []

    @classmethod
    def from_builtins(cls, value: Any) -> Self:
        consumers = value.get("consumerDataSet") if isinstance(value, dict) else None
        for consumer in consumers if isinstance(consumers, list) else ():
            if isinstance(consumer, dict):
                consumer.update(_enum_names(consumer))
        return super().from_builtins(value)


def _enum_names(consumer: dict[str, Any]) -> dict[str, str]:
    """Replace numbers of enums by their names."""
    places = {member: consumer.get(member) for member in _ENUMS}
    return {
        member: _ENUMS[member][place]
        for member, place in places.items()
        if isinstance(place, int) and 0 <= place < len(_ENUMS[member])
    }


class CheckClientRequestBody(Body):
    client_id: str
    group: str
    subscription_data: SubscriptionData


class SubscriptionGroupConfig(Body):
    """The configuration of a consumer group on a broker."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True


class SubscriptionGroupTable(Body):
    """All groups of a broker: subscriptionGroup.json and GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}


class ConsumerOffsetTable(Body):
    """Committed offsets by `topic@group` and queue: consumerOffset.json and GET_ALL_CONSUMER_OFFSET."""

    offset_table: dict[str, dict[int, int]] = {}


class DelayOffsetTable(Body):
    """Progress of each delay level: delayOffset.json and GET_ALL_DELAY_OFFSET."""

    offset_table: dict[int, int] = {}


class ConsumerIdList(Body):
    consumer_id_list: list[str] = []


class GroupList(Body):
    group_list: list[str] = []


class LockBatchRequestBody(Body):
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    consumer_group: str
    client_id: str
    mq_set: list[QueueKey] = []


class LockBatchResponseBody(Body):
    lock_ok_mq_set: list[QueueKey] = msgspec.field(default_factory=list, name="lockOKMQSet")


class Connection(Body):
    client_id: str
    client_addr: str
    language: str
    version: int


class ProducerConnection(Body):
    connection_set: list[Connection] = []


class ConsumerConnection(Body):
    connection_set: list[Connection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"


class ProducerInfo(Body):
    client_id: str
    remote_ip: str = msgspec.field(name="remoteIP")
    language: str
    version: int
    last_update_timestamp: int


class ProducerTableInfo(Body):
    data: dict[str, list[ProducerInfo]] = {}
