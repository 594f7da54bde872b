"""The broker's configuration: RocketMQ's properties file in, checked and typed options out.

`BrokerOptions` (options) is what code reads, `LiveOptions` (live) the options of a running broker. The tables list
every option and whether it is used, ignored or refused; `checks` check single values, `effective` the rules between
them; `store_options` derives the options of the store.
"""

from ariane.broker.config.options import BrokerOptions
from ariane.settings import ConfigError, Host, NotUpdatable

__all__ = ["BrokerOptions", "ConfigError", "Host", "NotUpdatable"]
