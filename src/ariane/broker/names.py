"""The names that clients may use, and RocketMQ's answers to those that they may not."""

import re

from ariane import message
from ariane.errors import ResponseError
from ariane.message import is_valid_name
from ariane.protocol.codes import ResponseCode

SYSTEM_PREFIX = "rmq_sys_"
GROUP_PREFIX = "RMQ_SYS_ARIANE_"
"""Topics of the records that a DLedger group keeps in its log."""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
SYSTEM_TOPICS = frozenset(
    {
        message.AUTO_CREATE_TOPIC,
        message.SCHEDULE_TOPIC,
        message.BENCHMARK_TOPIC,
        message.HALF_TOPIC,
        message.TRACE_TOPIC,
        message.HALF_OP_TOPIC,
        message.CHECK_MAX_TIME_TOPIC,
        message.SELF_TEST_TOPIC,
        message.OFFSET_MOVED_TOPIC,
    }
)
NO_SEND_TOPICS = frozenset(
    {
        message.SCHEDULE_TOPIC,
        message.TIMER_TOPIC,
        message.HALF_TOPIC,
        message.HALF_OP_TOPIC,
        message.CHECK_MAX_TIME_TOPIC,
        message.SELF_TEST_TOPIC,
        message.OFFSET_MOVED_TOPIC,
    }
)
SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
_GROUP = re.compile(r"[%|a-zA-Z0-9_-]{1,255}", re.ASCII)


def check_topic(name: str) -> str:
    """Return the name of a topic if it is legal; raise RocketMQ's error otherwise."""
    if is_valid_name(name):
        return name
    if not name or name.isspace():
        raise ResponseError(ResponseCode.SYSTEM_ERROR, "The specified topic is blank.")
    if len(name) > message.MAX_NAME and is_valid_name(name[: message.MAX_NAME]):
        raise ResponseError(ResponseCode.SYSTEM_ERROR, "The specified topic is longer than topic max length.")
    raise ResponseError(
        ResponseCode.SYSTEM_ERROR,
        "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
    )


def check_group(name: str) -> str:
    """Return the name of a group if it is legal; raise an error otherwise. Apache leaves this check to its clients."""
    if _GROUP.fullmatch(name):
        return name
    remark = "the specified group is blank, too long or contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)


def check_may_send(topic: str) -> None:
    """Refuse a send to a topic that only the broker writes to."""
    if topic in NO_SEND_TOPICS or topic.startswith(GROUP_PREFIX):
        raise ResponseError(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")


def check_not_system(topic: str, own: frozenset[str] = SYSTEM_TOPICS) -> None:
    """Refuse to create or delete a topic of the broker's own."""
    if topic in own or topic.startswith((SYSTEM_PREFIX, GROUP_PREFIX)):
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"The topic[{topic}] is conflict with system topic.")


def is_system_group(group: str) -> bool:
    """Whether a group is one of RocketMQ's own, which exist even when groups are not created by use."""
    return group.startswith(SYSTEM_GROUP_PREFIX)
