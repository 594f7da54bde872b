"""The table of limits on peers: what each bounds, its option, and the count of its refusals.

`docs/security.md` shows this table; `python -m scripts.limits_table` writes it there.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ariane.errors import ResponseError


class Reason(StrEnum):
    """Which limit refused; the label of the metric."""

    CONNECTIONS = "connections"
    CONNECTIONS_PER_ADDRESS = "connections_per_address"
    FRAME = "frame"
    FRAME_TIMEOUT = "frame_timeout"
    UNREAD = "unread"
    BUFFERED_BYTES = "buffered_bytes"
    IDLE = "idle"
    LONG_POLLS = "long_polls"
    LONG_POLLS_PER_CONNECTION = "long_polls_per_connection"
    LONG_POLL_BYTES = "long_poll_bytes"
    TOPICS = "topics"
    TOPICS_PER_ACCOUNT = "topics_per_account"
    GROUPS = "groups"
    GROUPS_PER_ACCOUNT = "groups_per_account"
    OFFSETS = "offsets"
    OFFSETS_PER_ACCOUNT = "offsets_per_account"
    LOCKS = "locks"
    CLIENTS = "clients"
    CLIENTS_PER_ACCOUNT = "clients_per_account"
    GROUPS_PER_CONNECTION = "groups_per_connection"
    HEARTBEAT = "heartbeat"
    FILTER_LENGTH = "filter_length"
    FILTER_TOKENS = "filter_tokens"
    FILTER_DEPTH = "filter_depth"
    FILTER_RATE = "filter_rate"
    REGISTRATION_BYTES = "registration_bytes"
    REGISTRATIONS_PER_CONNECTION = "registrations_per_connection"
    REGISTRATIONS_WAITING = "registrations_waiting"
    REGISTERED_BROKERS = "registered_brokers"
    REGISTERED_TOPICS = "registered_topics"
    KV_CONFIG = "kv_config"


@dataclass(frozen=True)
class Limit:
    """One row of the table. The default is that of the option."""

    reason: Reason
    option: str
    """The name of the option; empty for a limit that is derived from others."""
    bounds: str
    """What is bounded."""
    refusal: str
    """What happens beyond."""


CLOSED: Final = "the connection is closed"

SERVER_LIMITS: Final = (
    Limit(
        Reason.CONNECTIONS,
        "serverConnectionsMax",
        "connections in all, of both ports; fewer when the process may not open so many files",
        "a new connection is closed at once",
    ),
    Limit(
        Reason.CONNECTIONS_PER_ADDRESS,
        "serverConnectionsPerAddressMax",
        "connections of one IPv4 address or IPv6 /64 network; at most nine tenths of all",
        "a new connection is closed at once",
    ),
    Limit(Reason.FRAME, "com.rocketmq.remoting.frameMaxLength", "bytes of a frame, known before any is kept", CLOSED),
    Limit(
        Reason.FRAME_TIMEOUT,
        "serverFrameTimeoutSeconds",
        "seconds for a frame or a TLS handshake to arrive whole; a large frame may take longer at 64 KiB/s",
        CLOSED,
    ),
    Limit(
        Reason.UNREAD,
        "serverFrameTimeoutSeconds",
        "seconds in which a peer must read of its responses, and after them 64 KiB/s",
        CLOSED,
    ),
    Limit(
        Reason.BUFFERED_BYTES,
        "serverBufferedBytesMax",
        "bytes of unfinished frames, running requests and unread responses of all connections",
        "the connection that holds most is closed",
    ),
    Limit(Reason.IDLE, "serverChannelMaxIdleTimeSeconds", "seconds in which nothing is read or written", CLOSED),
)
"""Limits of broker and name server."""

BROKER_LIMITS: Final = (
    Limit(Reason.LONG_POLLS, "longPollMax", "waiting pulls in all", "SYSTEM_BUSY: the client pulls again later"),
    Limit(
        Reason.LONG_POLLS_PER_CONNECTION,
        "longPollPerConnectionMax",
        "waiting pulls of one connection",
        "SYSTEM_BUSY: the client pulls again later",
    ),
    Limit(Reason.LONG_POLL_BYTES, "longPollBytesMax", "bytes of all waiting pulls", "SYSTEM_BUSY"),
    Limit(Reason.TOPICS, "autoCreateTopicMax", "topics beyond which none is created by a send", "TOPIC_NOT_EXIST"),
    Limit(
        Reason.TOPICS_PER_ACCOUNT,
        "autoCreateTopicPerAccountMax",
        "topics that the sends of one account created since the start",
        "TOPIC_NOT_EXIST",
    ),
    Limit(
        Reason.GROUPS,
        "autoCreateGroupMax",
        "consumer groups beyond which none is created by use; one that never commits is deleted after ten minutes",
        "SUBSCRIPTION_GROUP_NOT_EXIST",
    ),
    Limit(
        Reason.GROUPS_PER_ACCOUNT,
        "autoCreateGroupPerAccountMax",
        "groups that one account created by use since the start",
        "SUBSCRIPTION_GROUP_NOT_EXIST",
    ),
    Limit(Reason.OFFSETS, "consumerOffsetMax", "pairs of topic and group with committed offsets", "SYSTEM_ERROR"),
    Limit(
        Reason.OFFSETS_PER_ACCOUNT,
        "consumerOffsetPerAccountMax",
        "such pairs that one account added since the start",
        "SYSTEM_ERROR",
    ),
    Limit(Reason.LOCKS, "queueLockMax", "locks of queues for ordered consuming", "the response lists no further queue"),
    Limit(Reason.CLIENTS, "clientMax", "clients in groups, by heartbeat, in all", "SYSTEM_ERROR"),
    Limit(Reason.CLIENTS_PER_ACCOUNT, "clientPerAccountMax", "clients in groups of one account", "SYSTEM_ERROR"),
    Limit(Reason.GROUPS_PER_CONNECTION, "clientGroupMax", "groups that one connection is in", "SYSTEM_ERROR"),
    Limit(Reason.HEARTBEAT, "heartbeatMaxBytes", "bytes of a heartbeat", "SYSTEM_ERROR"),
    Limit(
        Reason.FILTER_LENGTH,
        "filterExpressionMaxLength",
        "characters of an SQL92 expression",
        "SUBSCRIPTION_PARSE_FAILED",
    ),
    Limit(
        Reason.FILTER_TOKENS,
        "filterExpressionMaxTokens",
        "names, values and operators of an SQL92 expression: what it costs",
        "SUBSCRIPTION_PARSE_FAILED",
    ),
    Limit(
        Reason.FILTER_DEPTH, "filterExpressionMaxDepth", "nesting of an SQL92 expression", "SUBSCRIPTION_PARSE_FAILED"
    ),
    Limit(Reason.FILTER_RATE, "", "new expressions compiled in a second: 16 of the largest size", "SYSTEM_BUSY"),
)
"""Limits of the broker alone."""

NAMESRV_LIMITS: Final = (
    Limit(
        Reason.REGISTRATION_BYTES,
        "registrationMaxBytes",
        "bytes of a registration, also after decompression, which stops there",
        "SYSTEM_ERROR",
    ),
    Limit(
        Reason.REGISTRATIONS_PER_CONNECTION,
        "",
        "registrations of one connection that are decoded or wait for it: 1",
        "SYSTEM_BUSY",
    ),
    Limit(
        Reason.REGISTRATIONS_WAITING,
        "",
        "bytes of registrations that wait to be decoded: 2 of the largest of one address, 16 in all",
        "SYSTEM_BUSY",
    ),
    Limit(Reason.REGISTERED_BROKERS, "registeredBrokersMax", "addresses, names and clusters", "SYSTEM_ERROR"),
    Limit(Reason.REGISTERED_TOPICS, "registeredTopicsMax", "topics of all brokers", "SYSTEM_ERROR"),
    Limit(Reason.KV_CONFIG, "kvConfigMaxBytes", "characters of the KV configuration", "SYSTEM_ERROR"),
)
"""Limits of the name server alone."""


class LimitExceeded(ResponseError):
    """A request exceeds a limit. Raised by handlers; the connection counts it and answers with its code."""

    def __init__(self, reason: Reason, code: int, remark: str) -> None:
        super().__init__(code, remark)
        self.reason = reason


class Refusals:
    """Counts what the limits of one server refused.

    >>> refusals = Refusals()
    >>> refusals.count(Reason.IDLE)
    >>> refusals.counts()["idle"]
    1
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = dict.fromkeys(Reason, 0)

    def count(self, reason: Reason) -> None:
        """Count one refusal."""
        self._counts[reason] += 1

    def counts(self) -> dict[str, int]:
        """How often each limit refused since the start, by reason; all reasons are there."""
        return {str(reason): count for reason, count in self._counts.items()}
