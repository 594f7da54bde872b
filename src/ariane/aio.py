"""The clients for asyncio; `ariane` has the same names for plain threads."""

from ariane.client.admin import Admin
from ariane.client.consumer.lite_pull import LitePullConsumer
from ariane.client.consumer.pull_client import PullClient
from ariane.client.consumer.push import PushConsumer
from ariane.client.producer.producer import Producer
from ariane.client.producer.transaction import TransactionProducer

__all__ = ["Admin", "LitePullConsumer", "Producer", "PullClient", "PushConsumer", "TransactionProducer"]
