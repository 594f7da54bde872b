"""Headers of sending: messages, replies, messages sent back, transactions."""

from typing import TYPE_CHECKING, Any

from msgspec import defstruct
from msgspec.structs import FieldInfo, fields

from ariane.protocol.headers.header import Header, Int32, Int64

_V2_NAMES = {
    "producer_group": "a",
    "topic": "b",
    "default_topic": "c",
    "default_topic_queue_nums": "d",
    "queue_id": "e",
    "sys_flag": "f",
    "born_timestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsume_times": "j",
    "unit_mode": "k",
    "max_reconsume_times": "l",
    "batch": "m",
    "broker_name": "n",
}


class SendMessageRequest(Header):
    """SEND_MESSAGE: the long form of the field names."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    batch: bool = False
    max_reconsume_times: Int32 | None = None
    broker_name: str | None = None


def _field(info: FieldInfo) -> tuple[str, Any] | tuple[str, Any, Any]:
    return (info.name, info.type) if info.required else (info.name, info.type, info.default)


if TYPE_CHECKING:

    class SendMessageRequestV2(SendMessageRequest):
        """SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: the same header under names of one letter."""

else:  # msgspec renames only the fields that a class declares itself, so they are declared again
    SendMessageRequestV2 = defstruct(
        "SendMessageRequestV2",
        [_field(info) for info in fields(SendMessageRequest)],
        bases=(SendMessageRequest,),
        rename=_V2_NAMES,
    )


class SendMessageResponse(Header):
    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None


class ReplyMessageRequest(Header):
    """PUSH_REPLY_MESSAGE_TO_CLIENT: the broker passes a reply to the client that sent the request."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    born_host: str
    store_host: str
    store_timestamp: Int64
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False


class ConsumerSendMsgBackRequest(Header):
    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class EndTransactionRequest(Header):
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str
    from_transaction_check: bool = False
    transaction_id: str | None = None


class CheckTransactionStateRequest(Header):
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequest(Header):
    msg_id: str | None = None
