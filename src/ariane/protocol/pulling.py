"""What a pull asks for, read out of its header once and kept in a form that costs little to use."""

from ariane.protocol.headers.consume import PullMessageRequest


class Pulling:
    """The fields of a PULL_MESSAGE header."""

    __slots__ = (
        "commit_offset",
        "consumer_group",
        "expression_type",
        "max_msg_nums",
        "queue_id",
        "queue_offset",
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
        queue_id: int,
        queue_offset: int,
        max_msg_nums: int,
        sys_flag: int,
        commit_offset: int,
        suspend_timeout_millis: int,
        sub_version: int,
        subscription: str | None,
        expression_type: str | None,
    ) -> None:
        self.consumer_group = consumer_group
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.max_msg_nums = max_msg_nums
        self.sys_flag = sys_flag
        self.commit_offset = commit_offset
        self.suspend_timeout_millis = suspend_timeout_millis
        self.sub_version = sub_version
        self.subscription = subscription
        self.expression_type = expression_type

    def again(self, queue_id: int, queue_offset: int, commit_offset: int) -> "Pulling":
        """The same for the next pull, of which only these differ."""
        return Pulling(
            self.consumer_group,
            self.topic,
            queue_id,
            queue_offset,
            self.max_msg_nums,
            self.sys_flag,
            commit_offset,
            self.suspend_timeout_millis,
            self.sub_version,
            self.subscription,
            self.expression_type,
        )


def pulling_of(header: PullMessageRequest) -> Pulling:
    """The same from a typed header."""
    return Pulling(
        header.consumer_group,
        header.topic,
        header.queue_id,
        header.queue_offset,
        header.max_msg_nums,
        header.sys_flag,
        header.commit_offset,
        header.suspend_timeout_millis,
        header.sub_version,
        header.subscription,
        header.expression_type,
    )
