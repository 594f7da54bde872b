"""The broker: stores and serves messages.

Each concern is a module of its own; nothing here imports the client or the name server.
"""

from ariane.extras import extra

with extra("broker", "the broker"):
    from ariane.broker.config import BrokerOptions
    from ariane.broker.server import Broker

__all__ = ["Broker", "BrokerOptions"]
