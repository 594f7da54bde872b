"""What a send asks for, read out of its header once and kept in a form that costs little to use."""

from ariane.protocol.headers.send import SendMessageRequest


class Sending:
    """The fields of a SEND_MESSAGE header, whichever form it had. `properties` are bytes as they will be stored."""

    __slots__ = (
        "batch",
        "born_timestamp",
        "default_topic",
        "default_topic_queue_nums",
        "flag",
        "max_reconsume_times",
        "properties",
        "queue_id",
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
        queue_id: int,
        sys_flag: int,
        born_timestamp: int,
        flag: int,
        properties: bytes,
        reconsume_times: int,
        max_reconsume_times: int | None,
        unit_mode: bool,
        batch: bool,
    ) -> None:
        self.topic = topic
        self.default_topic = default_topic
        self.default_topic_queue_nums = default_topic_queue_nums
        self.queue_id = queue_id
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.flag = flag
        self.properties = properties
        self.reconsume_times = reconsume_times
        self.max_reconsume_times = max_reconsume_times
        self.unit_mode = unit_mode
        self.batch = batch

    def again(self, queue_id: int, born_timestamp: int, properties: bytes) -> "Sending":
        """The same for the next message, of which only these differ."""
        return Sending(
            self.topic,
            self.default_topic,
            self.default_topic_queue_nums,
            queue_id,
            self.sys_flag,
            born_timestamp,
            self.flag,
            properties,
            self.reconsume_times,
            self.max_reconsume_times,
            self.unit_mode,
            self.batch,
        )


def sending_of(header: SendMessageRequest) -> Sending:
    """The same from a typed header."""
    return Sending(
        header.topic,
        header.default_topic,
        header.default_topic_queue_nums,
        header.queue_id,
        header.sys_flag,
        header.born_timestamp,
        header.flag,
        (header.properties or "").encode(),
        header.reconsume_times or 0,
        header.max_reconsume_times,
        header.unit_mode,
        header.batch,
    )
