"""The permission that each request needs; access control checks it before the handler runs."""

from enum import Enum
from typing import Final

from ariane.protocol.codes import RequestCode as Code

RESEND_DEAD_LETTERS: Final = 30_001
"""A request code of Ariane's own, far from those that Apache assigns."""


class Permission(Enum):
    """What an account must be allowed to do."""

    PUB = "write to the topic"
    SUB = "read the topic, as the group"
    ANY = "nothing: any account may ask"
    ADMIN = "be an administrator"


_PUB = (
    Code.SEND_MESSAGE,
    Code.SEND_MESSAGE_V2,
    Code.SEND_BATCH_MESSAGE,
    Code.SEND_REPLY_MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2,
    Code.END_TRANSACTION,
)
_SUB = (
    Code.PULL_MESSAGE,
    Code.QUERY_CONSUMER_OFFSET,
    Code.UPDATE_CONSUMER_OFFSET,
    Code.CONSUMER_SEND_MSG_BACK,
    Code.GET_CONSUMER_LIST_BY_GROUP,
    Code.LOCK_BATCH_MQ,
    Code.UNLOCK_BATCH_MQ,
    Code.HEART_BEAT,
    Code.UNREGISTER_CLIENT,
    Code.CHECK_CLIENT_CONFIG,
    Code.QUERY_MESSAGE,
)
_ANY = (
    Code.SEARCH_OFFSET_BY_TIMESTAMP,
    Code.GET_MAX_OFFSET,
    Code.GET_MIN_OFFSET,
    Code.GET_EARLIEST_MSG_STORETIME,
    Code.VIEW_MESSAGE_BY_ID,
    Code.GET_TOPIC_STATS_INFO,
    Code.GET_TOPIC_CONFIG,
    Code.GET_CONSUME_STATS,
    Code.GET_BROKER_CONSUME_STATS,
    Code.GET_CONSUMER_CONNECTION_LIST,
    Code.GET_PRODUCER_CONNECTION_LIST,
    Code.GET_ALL_PRODUCER_INFO,
    Code.GET_CONSUMER_RUNNING_INFO,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    Code.QUERY_TOPIC_CONSUME_BY_WHO,
    Code.QUERY_CONSUME_TIME_SPAN,
    Code.QUERY_CONSUME_QUEUE,
    Code.QUERY_CORRECTION_OFFSET,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    Code.VIEW_BROKER_STATS_DATA,
    Code.GET_BROKER_RUNTIME_INFO,
    Code.GET_ALL_TOPIC_CONFIG,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
)
_ADMIN = (
    Code.UPDATE_AND_CREATE_TOPIC,
    Code.DELETE_TOPIC_IN_BROKER,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.DELETE_SUBSCRIPTIONGROUP,
    Code.UPDATE_BROKER_CONFIG,
    Code.GET_BROKER_CONFIG,
    Code.GET_ALL_CONSUMER_OFFSET,
    Code.GET_ALL_DELAY_OFFSET,
    Code.INVOKE_BROKER_TO_RESET_OFFSET,
    Code.CLONE_GROUP_OFFSET,
    Code.CONSUME_MESSAGE_DIRECTLY,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE,
    Code.DELETE_EXPIRED_COMMITLOG,
    Code.CLEAN_UNUSED_TOPIC,
    Code.RESUME_CHECK_HALF_MESSAGE,
    RESEND_DEAD_LETTERS,
    Code.UPDATE_AND_CREATE_ACL_CONFIG,
    Code.DELETE_ACL_CONFIG,
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    Code.GET_BROKER_CLUSTER_ACL_INFO,
    Code.GET_BROKER_CLUSTER_ACL_CONFIG,
)

PERMISSIONS: dict[int, Permission] = {
    **dict.fromkeys(_PUB, Permission.PUB),
    **dict.fromkeys(_SUB, Permission.SUB),
    **dict.fromkeys(_ANY, Permission.ANY),
    **dict.fromkeys(_ADMIN, Permission.ADMIN),
}
"""The permission of every request that a broker answers; a request without one must be refused."""
