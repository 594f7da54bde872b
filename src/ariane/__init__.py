"""Ariane: RocketMQ in Python. Here are the clients for plain threads; `ariane.aio` has them for asyncio.

>>> from ariane import Message, Producer
>>> with Producer("shop", name_servers="127.0.0.1:9876") as producer:  # doctest: +SKIP
...     producer.send(Message("orders", b"paid"))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ariane.message import Message, MessageQueue, ReceivedMessage

if TYPE_CHECKING:
    from ariane.client.admin.access import AccessAccount, AccessRules, AccessVersion
    from ariane.client.admin.brokers import BrokerProgress, BrokerStatus, PendingTimers
    from ariane.client.admin.dead_letters import DeadLetter, DeadLetterCount, Resent
    from ariane.client.admin.lag import GroupLag, QueueBacklog, SubscriptionVariant
    from ariane.client.admin.messages import MessageTrack, TraceRecord, TrackState
    from ariane.client.admin.offsets import OffsetReset
    from ariane.client.admin.topics import GrownTopic
    from ariane.client.admin.transactions import HalfMessage
    from ariane.client.consumer.listen.listener import ConsumeStatus, Delivery, Listener
    from ariane.client.consumer.options import ConsumeFrom, LiteOptions, Model, PushOptions
    from ariane.client.consumer.stats import ConsumerStats, QueueLag, TopicStats
    from ariane.client.options import ClientOptions, Expression, PythonFilter, Sql, WasmFilter
    from ariane.client.producer.options import ProducerOptions, QueueChoice
    from ariane.client.producer.transaction import TransactionListener
    from ariane.client.results import (
        PullResult,
        PullStatus,
        SendResult,
        SendStatus,
        TransactionResult,
        TransactionState,
    )
    from ariane.client.sync.admin import Admin
    from ariane.client.sync.lite_pull import LitePullConsumer
    from ariane.client.sync.producer import Producer
    from ariane.client.sync.pull_client import PullClient
    from ariane.client.sync.push import PushConsumer
    from ariane.client.sync.transaction import TransactionProducer
    from ariane.protocol.bodies import (
        BrokerStatsData,
        ClusterInfo,
        ConsumeMessageDirectlyResult,
        ConsumerConnection,
        ConsumerRunningInfo,
        ConsumeStats,
        FilterRecord,
        ProducerConnection,
        ProducerInfo,
        QueryConsumeQueueResponseBody,
        SubscriptionGroupConfig,
        SubscriptionGroupTable,
        TopicConfigTable,
        TopicRouteData,
        TopicStatsTable,
    )
    from ariane.protocol.compression import Compression
    from ariane.remoting import TlsClient

__all__ = [
    "AccessAccount",
    "AccessRules",
    "AccessVersion",
    "Admin",
    "BrokerProgress",
    "BrokerStatsData",
    "BrokerStatus",
    "ClientOptions",
    "ClusterInfo",
    "Compression",
    "ConsumeFrom",
    "ConsumeMessageDirectlyResult",
    "ConsumeStats",
    "ConsumeStatus",
    "ConsumerConnection",
    "ConsumerRunningInfo",
    "ConsumerStats",
    "DeadLetter",
    "DeadLetterCount",
    "Delivery",
    "Expression",
    "FilterRecord",
    "GroupLag",
    "GrownTopic",
    "HalfMessage",
    "Listener",
    "LiteOptions",
    "LitePullConsumer",
    "Message",
    "MessageQueue",
    "MessageTrack",
    "Model",
    "OffsetReset",
    "PendingTimers",
    "Producer",
    "ProducerConnection",
    "ProducerInfo",
    "ProducerOptions",
    "PullClient",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PushOptions",
    "PythonFilter",
    "QueryConsumeQueueResponseBody",
    "QueueBacklog",
    "QueueChoice",
    "QueueLag",
    "ReceivedMessage",
    "Resent",
    "SendResult",
    "SendStatus",
    "Sql",
    "SubscriptionGroupConfig",
    "SubscriptionGroupTable",
    "SubscriptionVariant",
    "TlsClient",
    "TopicConfigTable",
    "TopicRouteData",
    "TopicStats",
    "TopicStatsTable",
    "TraceRecord",
    "TrackState",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "WasmFilter",
]

_MODULES = {
    "ariane.client.admin.access": "AccessAccount AccessRules AccessVersion",
    "ariane.client.admin.brokers": "BrokerProgress BrokerStatus PendingTimers",
    "ariane.client.admin.dead_letters": "DeadLetter DeadLetterCount Resent",
    "ariane.client.admin.lag": "GroupLag QueueBacklog SubscriptionVariant",
    "ariane.client.admin.messages": "MessageTrack TraceRecord TrackState",
    "ariane.client.admin.offsets": "OffsetReset",
    "ariane.client.admin.topics": "GrownTopic",
    "ariane.client.admin.transactions": "HalfMessage",
    "ariane.client.consumer.listen.listener": "ConsumeStatus Delivery Listener",
    "ariane.client.consumer.stats": "ConsumerStats QueueLag TopicStats",
    "ariane.client.consumer.options": "ConsumeFrom LiteOptions Model PushOptions",
    "ariane.client.options": "ClientOptions Expression PythonFilter Sql WasmFilter",
    "ariane.client.producer.options": "ProducerOptions QueueChoice",
    "ariane.client.producer.transaction": "TransactionListener",
    "ariane.client.results": "PullResult PullStatus SendResult SendStatus TransactionResult TransactionState",
    "ariane.client.sync.admin": "Admin",
    "ariane.client.sync.lite_pull": "LitePullConsumer",
    "ariane.client.sync.producer": "Producer",
    "ariane.client.sync.pull_client": "PullClient",
    "ariane.client.sync.push": "PushConsumer",
    "ariane.client.sync.transaction": "TransactionProducer",
    "ariane.protocol.bodies": "BrokerStatsData ClusterInfo ConsumeMessageDirectlyResult ConsumerConnection "
    "ConsumerRunningInfo ConsumeStats ProducerConnection ProducerInfo QueryConsumeQueueResponseBody "
    "FilterRecord SubscriptionGroupConfig SubscriptionGroupTable TopicConfigTable TopicRouteData TopicStatsTable",
    "ariane.protocol.compression": "Compression",
    "ariane.remoting": "TlsClient",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a client when it is first used: a broker imports this package too, and needs none of them."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'ariane' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
