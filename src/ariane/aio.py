"""The clients for asyncio; `ariane` has the same names for plain threads."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ariane.client.admin import Admin
    from ariane.client.consumer.lite_pull import LitePullConsumer
    from ariane.client.consumer.pull_client import PullClient
    from ariane.client.consumer.push import PushConsumer
    from ariane.client.producer.producer import Producer
    from ariane.client.producer.transaction import TransactionProducer

__all__ = ["Admin", "LitePullConsumer", "Producer", "PullClient", "PushConsumer", "TransactionProducer"]

_MODULE_OF = {
    "Admin": "ariane.client.admin",
    "LitePullConsumer": "ariane.client.consumer.lite_pull",
    "Producer": "ariane.client.producer.producer",
    "PullClient": "ariane.client.consumer.pull_client",
    "PushConsumer": "ariane.client.consumer.push",
    "TransactionProducer": "ariane.client.producer.transaction",
}


def __getattr__(name: str) -> Any:
    """Load a client when it is first used: a producer needs none of the others."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'ariane.aio' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
