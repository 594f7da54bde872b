"""Ariane: RocketMQ in Python. Here are the clients for plain threads; `ariane.aio` has them for asyncio.

>>> from ariane import Message, Producer
>>> with Producer("shop", name_servers="127.0.0.1:9876") as producer:  # doctest: +SKIP
...     producer.send(Message("orders", b"paid"))
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ariane.message import Message, MessageQueue, ReceivedMessage

if TYPE_CHECKING:
    from ariane.client.consumer.listener import ConsumeStatus, Delivery
    from ariane.client.consumer.stats import ConsumerStats
    from ariane.client.options import (
        ClientOptions,
        Compression,
        ConsumeFrom,
        LiteOptions,
        Model,
        ProducerOptions,
        PushOptions,
        QueueChoice,
        Sql,
    )
    from ariane.client.results import (
        PullResult,
        PullStatus,
        SendResult,
        SendStatus,
        TransactionResult,
        TransactionState,
    )
    from ariane.client.sync import Admin, LitePullConsumer, Producer, PullClient, PushConsumer, TransactionProducer

__all__ = [
    "Admin",
    "ClientOptions",
    "Compression",
    "ConsumeFrom",
    "ConsumeStatus",
    "ConsumerStats",
    "Delivery",
    "LiteOptions",
    "LitePullConsumer",
    "Message",
    "MessageQueue",
    "Model",
    "Producer",
    "ProducerOptions",
    "PullClient",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PushOptions",
    "QueueChoice",
    "ReceivedMessage",
    "SendResult",
    "SendStatus",
    "Sql",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]

logging.getLogger("ariane").addHandler(logging.NullHandler())  # quiet until somebody asks

_OPTIONS = "ClientOptions Compression ConsumeFrom LiteOptions Model ProducerOptions PushOptions QueueChoice Sql"
_RESULTS = "PullResult PullStatus SendResult SendStatus TransactionResult TransactionState"
_CLIENTS = "Admin LitePullConsumer PushConsumer Producer PullClient TransactionProducer"
_HOMES = (
    dict.fromkeys(_OPTIONS.split(), "ariane.client.options")
    | dict.fromkeys(_RESULTS.split(), "ariane.client.results")
    | dict.fromkeys(["ConsumeStatus", "Delivery"], "ariane.client.consumer.listener")
    | {"ConsumerStats": "ariane.client.consumer.stats"}
    | dict.fromkeys(_CLIENTS.split(), "ariane.client.sync")
)


def __getattr__(name: str) -> Any:
    """Load clients when they are first used: a broker imports this package too, and needs none of them."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ariane' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
