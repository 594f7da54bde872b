"""Messages as users see them, the names of their properties, and the names of RocketMQ's own topics."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

KEYS: Final = "KEYS"  # property names; the values are RocketMQ's
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
UNIQUE_KEY: Final = "UNIQ_KEY"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
INSTANCE_ID: Final = "INSTANCE_ID"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
REPLY_ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
CLUSTER: Final = "CLUSTER"
MESSAGE_TYPE: Final = "MSG_TYPE"
DELIVER_TIME: Final = "__STARTDELIVERTIME"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"  # RocketMQ 5's name for it
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
"""When a stored message with a delivery time is due; set by the broker."""
TIMER_CANCEL: Final = "TIMER_DEL_UNIQKEY"
"""The unique key of the message whose delivery a message cancels."""

BUYER_ID: Final = "BUYER_ID"
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
"""The field of QUERY_MESSAGE that asks for a message's own id instead of a key."""

TIMER_OPTION: Final = "timerWheelEnable"
"""The field of a heartbeat by which our client asks whether a broker keeps delivery times, and of the answer."""

DEFAULT_REGION: Final = "DefaultRegion"
"""The value of MSG_REGION unless a broker is configured otherwise."""

RESERVED_PROPERTIES: Final = frozenset(
    {
        KEYS, TAGS, WAIT, DELAY, RETRY_TOPIC, REAL_TOPIC, REAL_QUEUE_ID, TRANSACTION_PREPARED, PRODUCER_GROUP,
        MIN_OFFSET, MAX_OFFSET, BUYER_ID, ORIGIN_MESSAGE_ID, TRANSFER_FLAG, CORRECTION_FLAG, MQ2_FLAG, RECONSUME_TIME,
        MSG_REGION, TRACE_ON, UNIQUE_KEY, MAX_RECONSUME_TIMES, CONSUME_START_TIME, TRANSACTION_PREPARED_QUEUE_OFFSET,
        TRANSACTION_CHECK_TIMES, INSTANCE_ID, CORRELATION_ID, REPLY_TO_CLIENT, TTL, REPLY_ARRIVE_TIME, PUSH_REPLY_TIME,
        CLUSTER, MESSAGE_TYPE, DELIVER_TIME, TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_OUT_MS,
        TIMER_CANCEL, INNER_MULTI_QUEUE_OFFSET,
    }
)  # fmt: skip
"""Property names of clients and brokers; a user's property must have another name."""

DELAY_LEVELS: Final = 18
"""The delay levels of a broker's default `messageDelayLevel`, 1 s to 2 h."""

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
REPLY_TOPIC_SUFFIX: Final = "REPLY_TOPIC"
RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"

MAX_NAME: Final = 127
_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,127}", re.ASCII)


def is_valid_name(name: str) -> bool:
    """RocketMQ's rule for topics and groups, which also keeps a name from leaving the store folder.

    >>> is_valid_name("orders"), is_valid_name("../orders")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def retry_topic(group: str) -> str:
    """The retry topic of a group."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The dead-letter topic of a group."""
    return DLQ_PREFIX + group


@dataclass(slots=True, init=False)
class Message:
    """A message to send.

    `delay_level` is one of the broker's levels (1 to 18 unless it is configured otherwise). `deliver_at` is a time in
    milliseconds since 1970; brokers of Ariane and RocketMQ 5 keep it, and `send` refuses it for older ones. With
    `wait_store=False` the broker answers before a flush or a slave is done. ValueError for a key with blanks, which
    separate keys, and for a property whose name is reserved or whose value is empty.

    >>> Message("orders", b"paid", tags="TagA", keys=["o-1", "o-2"]).properties
    {'TAGS': 'TagA', 'KEYS': 'o-1 o-2'}
    """

    topic: str
    body: bytes
    tags: str | None
    keys: str | Iterable[str] | None
    properties: dict[str, str]
    delay_level: int
    flag: int
    deliver_at: int | None
    wait_store: bool

    def __init__(
        self,
        topic: str,
        body: bytes,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: dict[str, str] | None = None,
        delay_level: int = 0,
        flag: int = 0,
        deliver_at: int | None = None,
        wait_store: bool = True,
    ) -> None:
        self.topic = topic
        self.body = body
        self.tags = tags
        self.keys = keys
        self.properties = properties = {} if properties is None else properties
        self.delay_level = delay_level
        self.flag = flag
        self.deliver_at = deliver_at
        self.wait_store = wait_store
        if properties:
            _check_properties(properties)
        if tags is not None:
            properties[TAGS] = tags
        if keys is not None:
            words = [keys] if isinstance(keys, str) else list(keys)
            if any(len(word.split()) != 1 for word in words):
                raise ValueError(
                    f"keys={keys!r}: a key has no blanks, which separate keys, and is not empty: give a list"
                )
            if words:
                properties[KEYS] = " ".join(words)
        if delay_level and deliver_at is not None:
            raise ValueError("delay_level and deliver_at each say when to deliver: give only one of them")
        if delay_level:
            properties[DELAY] = str(delay_level)
        if deliver_at is not None:
            properties[DELIVER_TIME] = properties[TIMER_DELIVER_MS] = str(deliver_at)
        if not wait_store:
            properties[WAIT] = "false"

    @classmethod
    def with_properties(cls, topic: str, body: bytes, properties: dict[str, str], flag: int = 0) -> "Message":
        """A message with exactly these properties, reserved names allowed: for clients that build their own."""
        message = cls(topic, body, flag=flag)
        message.properties = properties
        return message


def _check_properties(properties: dict[str, str]) -> None:
    for name, value in properties.items():
        if name in RESERVED_PROPERTIES:
            raise ValueError(
                f"property {name} is reserved for RocketMQ itself: choose another name, or use the argument of Message "
                "for it (tags, keys, delay_level, deliver_at); `received.user_properties` has none of them"
            )
        if not name or not value:
            raise ValueError(f"property {name!r}={value!r} would be lost: brokers keep no empty names and values")


class MessageQueue(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """One queue of a topic on one broker."""

    topic: str
    broker_name: str
    queue_id: int


class FieldReader(Protocol):
    """Decodes the fields of a received message one by one from its stored bytes."""

    def read(self, message: "ReceivedMessage", name: str) -> object:
        """The value of a field; AttributeError for any other name."""
        ...


@dataclass(slots=True, kw_only=True)
class ReceivedMessage:
    """A message as a consumer receives it.

    A pulled message has few of its slots set; `reader` decodes each of the others when it is first asked for.
    """

    topic: str
    body: bytes
    properties: dict[str, str]
    queue: MessageQueue
    queue_offset: int
    physical_offset: int
    message_id: str
    offset_id: str
    born_time: int
    born_host: str
    store_time: int
    store_host: str
    reconsume_times: int
    sys_flag: int
    flag: int
    prepared_offset: int = 0
    store_size: int = 0
    decode_error: str | None = None
    """Why the message is not as its sender wrote it: `body` is as stored when it cannot be decompressed, and bytes of
    properties that are not UTF-8 are replaced by U+FFFD. None for all other messages."""
    reader: FieldReader | None = field(default=None, repr=False, compare=False)
    head: bytes = field(default=b"", repr=False, compare=False)
    """For `reader`: the stored bytes before the body."""
    tail: bytes = field(default=b"", repr=False, compare=False)
    """For `reader`: the stored bytes after the body."""

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Decode a field. Python calls this only for a slot that is not set, and for unknown names."""
            if name == "reader" or self.reader is None:
                raise AttributeError(f"a ReceivedMessage has no attribute {name!r}")
            value = self.reader.read(self, name)
            setattr(self, name, value)
            return value

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """All fields, decoded, for copies and pickles."""
        return None, {name: getattr(self, name) for name in self.__dataclass_fields__} | {"reader": None}

    @property
    def tags(self) -> str | None:
        """The tag, None without one."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        """The keys, for which the broker has an index."""
        return self.properties.get(KEYS, "").split()

    @property
    def user_properties(self) -> dict[str, str]:
        """The properties without RocketMQ's own, e.g. to forward a message."""
        return {name: value for name, value in self.properties.items() if name not in RESERVED_PROPERTIES}
