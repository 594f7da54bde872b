"""The clients for plain threads. Derived from the asyncio ones by scripts/derive_sync.py: do not edit."""

from ariane.client.sync.admin import Admin
from ariane.client.sync.lite_pull import LitePullConsumer
from ariane.client.sync.producer import Producer
from ariane.client.sync.pull_client import PullClient
from ariane.client.sync.push import PushConsumer
from ariane.client.sync.transaction import TransactionProducer

__all__ = ["Admin", "LitePullConsumer", "Producer", "PullClient", "PushConsumer", "TransactionProducer"]
