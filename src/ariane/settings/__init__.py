"""Configuration in RocketMQ's properties format.

    properties    the file format of `java.util.Properties`
    options       what an option is; tables of options
    values        the checked values of all options of a table
    remoting      the options of listening and TLS, which all servers share; operation: of metrics and logs
    server        these options as fields of a class
    edit          changes values in the text of a file
    host, errors  facts of the host that defaults depend on; configuration errors

Text and facts of the host are arguments, nothing is read here; only `edit.rewrite` writes a file.
"""

from ariane.errors import ConfigError
from ariane.settings.errors import NotUpdatable
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
