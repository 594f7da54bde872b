"""The requests that change configuration or data: each is logged with the account or address that sent it."""

from typing import Final

from ariane.protocol.codes import PROMOTE_BROKER, REMOVE_FILTER, RESEND_DEAD_LETTERS
from ariane.protocol.codes import RequestCode as Code

CHANGES: Final[frozenset[int]] = frozenset(
    {
        Code.UPDATE_AND_CREATE_TOPIC,
        Code.DELETE_TOPIC_IN_BROKER,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.DELETE_SUBSCRIPTIONGROUP,
        Code.UPDATE_BROKER_CONFIG,
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        Code.CLONE_GROUP_OFFSET,
        Code.CONSUME_MESSAGE_DIRECTLY,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE,
        Code.DELETE_EXPIRED_COMMITLOG,
        Code.CLEAN_UNUSED_TOPIC,
        Code.RESUME_CHECK_HALF_MESSAGE,
        RESEND_DEAD_LETTERS,
        PROMOTE_BROKER,
        Code.REGISTER_MESSAGE_FILTER_CLASS,
        REMOVE_FILTER,
        Code.UPDATE_AND_CREATE_ACL_CONFIG,
        Code.DELETE_ACL_CONFIG,
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    }
)
