"""Configuration in RocketMQ's properties format: the file format, the table of known options, checked values.

Sans-IO: text and the facts of the host come in as arguments; the name server's and the broker's tables build on this.
"""

from ariane.settings.errors import ConfigError, NotUpdatable
from ariane.settings.host import Host
from ariane.settings.options import LONG_MAX, Option, OptionTable, Value, absent, ignored, java_text
from ariane.settings.properties import Entry, format_properties, parse_properties
from ariane.settings.values import Settings

__all__ = [
    "LONG_MAX",
    "ConfigError",
    "Entry",
    "Host",
    "NotUpdatable",
    "Option",
    "OptionTable",
    "Settings",
    "Value",
    "absent",
    "format_properties",
    "ignored",
    "java_text",
    "parse_properties",
]
