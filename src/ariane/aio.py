"""The clients for asyncio; `ariane` has the same names for plain threads."""

from ariane.client.admin import Admin
from ariane.client.producer import Producer
from ariane.client.pull_client import PullClient
from ariane.client.transaction import TransactionProducer

__all__ = ["Admin", "Producer", "PullClient", "TransactionProducer"]
