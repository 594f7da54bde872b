"""The header of a pull, parsed once into values that are cheap to use."""

from ariane.protocol.command import Command
from ariane.protocol.headers.consume import PullMessageRequest


class PullKind:
    """The fields that all pulls of a consumer from a topic have in common."""

    __slots__ = (
        "consumer_group",
        "expression_type",
        "max_msg_nums",
        "sub_version",
        "subscription",
        "suspend_timeout_millis",
        "sys_flag",
        "topic",
    )

    def __init__(
        self,
        consumer_group: str,
        topic: str,
        max_msg_nums: int,
        sys_flag: int,
        suspend_timeout_millis: int,
        sub_version: int,
        subscription: str | None,
        expression_type: str | None,
    ) -> None:
        self.consumer_group = consumer_group
        self.topic = topic
        self.max_msg_nums = max_msg_nums
        self.sys_flag = sys_flag
        self.suspend_timeout_millis = suspend_timeout_millis
        self.sub_version = sub_version
        self.subscription = subscription
        self.expression_type = expression_type


class Pulling:
    """The fields of a PULL_MESSAGE header."""

    __slots__ = ("commit_offset", "kind", "queue_id", "queue_offset")

    def __init__(self, kind: PullKind, queue_id: int, queue_offset: int, commit_offset: int) -> None:
        self.kind = kind
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.commit_offset = commit_offset

    def values(self) -> tuple[object, ...]:
        """All fields as a tuple, for comparison."""
        k = self.kind
        common = (k.consumer_group, k.topic, k.max_msg_nums, k.sys_flag, k.suspend_timeout_millis, k.sub_version)
        return (*common, k.subscription, k.expression_type, self.queue_id, self.queue_offset, self.commit_offset)


def pulling_in(request: Command) -> Pulling:
    """Parse a PULL_MESSAGE; ResponseError when its header is malformed."""
    typed = request.typed
    return typed if isinstance(typed, Pulling) else pulling_of(request.parsed(PullMessageRequest))


def pulling_of(header: PullMessageRequest) -> Pulling:
    """Build it from a typed header."""
    kind = PullKind(
        header.consumer_group,
        header.topic,
        header.max_msg_nums,
        header.sys_flag,
        header.suspend_timeout_millis,
        header.sub_version,
        header.subscription,
        header.expression_type,
    )
    return Pulling(kind, header.queue_id, header.queue_offset, header.commit_offset)
