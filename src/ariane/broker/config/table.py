"""All options of the broker in the order in which Apache prints them."""

from __future__ import annotations

from ariane.broker.config.broker_table import ADDRESS_SERVER_OPTIONS, BROKER_OPTIONS, OWN_OPTIONS
from ariane.broker.config.client_table import CLIENT_OPTIONS
from ariane.broker.config.store_table import STORE_OPTIONS
from ariane.settings import OptionTable
from ariane.settings.remoting import (
    OWN_SERVER_OPTIONS,
    SERVER_OPTIONS,
    TLS_CLIENT_OPTIONS,
    TLS_SERVER_OPTIONS,
    listen_port,
)

BROKER_TABLE = OptionTable(
    (
        *BROKER_OPTIONS,
        listen_port(10911),
        *SERVER_OPTIONS,
        *CLIENT_OPTIONS,
        *STORE_OPTIONS,
        *ADDRESS_SERVER_OPTIONS,
        *OWN_SERVER_OPTIONS,
        *TLS_SERVER_OPTIONS,
        *TLS_CLIENT_OPTIONS,
        *OWN_OPTIONS,
    )
)
