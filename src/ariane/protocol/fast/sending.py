"""The header of a send, parsed once into values that are cheap to use."""

from types import FunctionType
from typing import Final

from ariane.message import (
    CLUSTER,
    DELAY,
    DELIVER_TIME,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    WAIT,
)
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.fast.property_form import PropertyForm
from ariane.protocol.headers.send import SendMessageRequest, SendMessageRequestV2
from ariane.protocol.native import i64
from ariane.protocol.properties import NAME_END, VALUE_END

HAS_CLUSTER: Final = 1  # bits of `names`
HAS_WAIT: Final = 2
HAS_DELAY: Final = 4
HAS_TRANSACTION: Final = 8
HAS_TIMER: Final = 16

_CLUSTER: Final = CLUSTER.encode()
_WAIT: Final = WAIT.encode()
_DELAY: Final = DELAY.encode()
_TRANSACTION: Final = TRANSACTION_PREPARED.encode()
_TIMERS: Final = (
    TIMER_DELIVER_MS.encode(),
    TIMER_DELAY_MS.encode(),
    TIMER_DELAY_SEC.encode(),
    DELIVER_TIME.encode(),
)
_SHORTEST_TIMER: Final = min(map(len, _TIMERS))
LONGEST_NAME: Final = len(DELIVER_TIME)  # of all these
_SEARCHED: Final = [
    (VALUE_END + name + NAME_END, bit)
    for name, bit in (
        (_CLUSTER, HAS_CLUSTER),
        (_WAIT, HAS_WAIT),
        (_DELAY, HAS_DELAY),
        (_TRANSACTION, HAS_TRANSACTION),
        *((name, HAS_TIMER) for name in _TIMERS),
    )
]
_NONE: Final = b""
_FULL_NAMES: Final = int(RequestCode.SEND_MESSAGE)  # the other forms have field names of one letter


class SendKind:
    """The fields that all sends of a producer to a topic have in common."""

    __slots__ = (
        "batch",
        "default_topic",
        "default_topic_queue_nums",
        "flag",
        "max_reconsume_times",
        "reconsume_times",
        "sys_flag",
        "topic",
        "unit_mode",
    )

    def __init__(
        self,
        topic: str,
        default_topic: str,
        default_topic_queue_nums: int,
        sys_flag: int,
        flag: int,
        reconsume_times: int,
        max_reconsume_times: int | None,
        unit_mode: bool,
        batch: bool,
    ) -> None:
        self.topic = topic
        self.default_topic = default_topic
        self.default_topic_queue_nums = default_topic_queue_nums
        self.sys_flag = sys_flag
        self.flag = flag
        self.reconsume_times = reconsume_times
        self.max_reconsume_times = max_reconsume_times
        self.unit_mode = unit_mode
        self.batch = batch

    def to(self, topic: str) -> "SendKind":
        """A copy for another topic."""
        return SendKind(
            topic,
            self.default_topic,
            self.default_topic_queue_nums,
            self.sys_flag,
            self.flag,
            self.reconsume_times,
            self.max_reconsume_times,
            self.unit_mode,
            self.batch,
        )


class Sending:
    """The fields of a SEND_MESSAGE header in any of its forms.

    `names` has a bit for each property that matters to a broker. With a `form` the properties are the text of that form
    around the unique key `key`, joined on demand.
    """

    __slots__ = ("_properties", "born_timestamp", "form", "key", "kind", "names", "queue_id")

    def __init__(
        self,
        kind: SendKind,
        queue_id: int,
        born_timestamp: int,
        properties: bytes,
        names: int,
        form: PropertyForm | None = None,
    ) -> None:
        self.kind = kind
        self.queue_id = queue_id
        self.born_timestamp = born_timestamp
        self.names = names
        self._properties = properties
        self.form = form
        self.key = _NONE if form is None else form.key

    @property
    def properties(self) -> bytes:
        return self._properties if self.form is None else self.form.text(self.key)

    def values(self) -> tuple[object, ...]:
        """All fields as a tuple, for comparison."""
        k = self.kind
        common = (k.topic, k.default_topic, k.default_topic_queue_nums, k.sys_flag, k.flag, k.reconsume_times)
        own = (self.queue_id, self.born_timestamp, self.properties, self.names)
        return (*common, k.max_reconsume_times, k.unit_mode, k.batch, *own)


def sending_in(request: Command) -> Sending:
    """Parse a SEND_MESSAGE in any of its three forms; ResponseError when its header is malformed."""
    typed = request.typed
    if isinstance(typed, Sending):
        return typed
    if request.code == _FULL_NAMES:
        return sending_of(request.parsed(SendMessageRequest))
    return sending_of(request.parsed(SendMessageRequestV2))


def sending_of(header: SendMessageRequest) -> Sending:
    """Build it from a typed header."""
    properties = (header.properties or "").encode()
    return Sending(kind_of(header), header.queue_id, header.born_timestamp, properties, names_in(properties))


def kind_of(header: SendMessageRequest) -> SendKind:
    """The fields shared with the next sends of the same producer."""
    return SendKind(
        header.topic,
        header.default_topic,
        header.default_topic_queue_nums,
        header.sys_flag,
        header.flag,
        header.reconsume_times or 0,
        header.max_reconsume_times,
        header.unit_mode,
        header.batch,
    )


def names_in(raw: bytes) -> int:
    """The bits of the properties that matter to a broker."""
    if PLAIN:
        return _names_by_search(raw)
    found: i64 = 0
    size: i64 = len(raw)
    at: i64 = 0
    while at < size:
        end = at
        while end < size and raw[end] != 1 and raw[end] != 2:
            end += 1
        if end < size and raw[end] == 1:
            found |= name_bit(raw[at:end])
        while end < size and raw[end] != 2:
            end += 1
        at = end + 1
    return found


def _names_by_search(raw: bytes) -> int:
    """The cheapest way in plain Python; `in` would first check whether the name is a number."""
    find = (VALUE_END + raw).find
    names = 0
    for name, bit in _SEARCHED:
        if find(name) >= 0:
            names |= bit
    return names


def name_bit(name: bytes) -> int:
    """The bit of one property name; 0 when it does not matter to a broker."""
    if name == _WAIT:
        return HAS_WAIT
    if name == _DELAY:
        return HAS_DELAY
    if name == _CLUSTER:
        return HAS_CLUSTER
    if name == _TRANSACTION:
        return HAS_TRANSACTION
    return HAS_TIMER if len(name) >= _SHORTEST_TIMER and name in _TIMERS else 0


PLAIN: Final = isinstance(names_in, FunctionType)
"""Whether this module is not compiled."""
