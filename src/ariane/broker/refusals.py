"""Refusals that several handlers answer with, in the words of RocketMQ, which its clients and tools show."""

from typing import Final

from ariane.errors import ResponseError
from ariane.protocol.bodies.topics import INHERIT, READ, WRITE
from ariane.protocol.codes import ResponseCode

FAQ: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


def broker_is_read_only(address: str) -> ResponseError:
    """The broker's own permission does not include writing."""
    return ResponseError(ResponseCode.NO_PERMISSION, f"the broker[{address}] sending message is forbidden")


def topic_is_read_only(topic: str) -> ResponseError:
    """The topic's permission does not include writing."""
    return ResponseError(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")


def no_such_group(group: str) -> ResponseError:
    """The consumer group does not exist, and groups are not created by use."""
    return ResponseError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group} {FAQ}")


def not_on_a_slave() -> ResponseError:
    """Topics and groups are changed on the master, and slaves copy them."""
    remark = "Can't modify topic or subscription group from slave broker, please execute it from master broker."
    return ResponseError(ResponseCode.SYSTEM_ERROR, remark)


def permission_text(perm: int) -> str:
    """A permission as RocketMQ writes it.

    >>> permission_text(6)
    'RW-'
    """
    return ("R" if perm & READ else "-") + ("W" if perm & WRITE else "-") + ("X" if perm & INHERIT else "-")
