"""The broker's configuration: RocketMQ's properties file in, checked and typed options out.

`BrokerOptions` is what the code uses; the tables beside it say which options exist.
"""

from ariane.broker.config.options import BrokerOptions
from ariane.settings import ConfigError, Host, NotUpdatable

__all__ = ["BrokerOptions", "ConfigError", "Host", "NotUpdatable"]
