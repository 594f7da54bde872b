"""Applications over RocketMQ: a template that sends payloads, and functions that listen, by type hints and settings.

    from ariane.app import Ariane

    app = Ariane("shop")

    @app.listener("orders", group="stock", tags="paid || refunded")
    async def reserve(order: Order) -> None: ...

`ariane app run shop.main:app` runs it. It needs `pip install 'ariane[app]'`.
"""

from ariane import Message, ReceivedMessage, Sql, TransactionState
from ariane.extras import extra

with extra("app", "ariane.app"):
    from ariane.app.application import Ariane
    from ariane.app.errors import AppError, InvalidPayload, SettingsError
    from ariane.app.listen.arguments import Depends, Header
    from ariane.app.listen.context import Context, DeadLetter, Retry
    from ariane.app.listen.listener import Guarantee, Listener
    from ariane.app.payload import Converter
    from ariane.app.send.outgoing import Envelope
    from ariane.app.send.template import Template
    from ariane.app.send.transactions import TransactionListener
    from ariane.app.settings import Settings, load_settings

__all__ = [
    "AppError",
    "Ariane",
    "Context",
    "Converter",
    "DeadLetter",
    "Depends",
    "Envelope",
    "Guarantee",
    "Header",
    "InvalidPayload",
    "Listener",
    "Message",
    "ReceivedMessage",
    "Retry",
    "Settings",
    "SettingsError",
    "Sql",
    "Template",
    "TransactionListener",
    "TransactionState",
    "load_settings",
]
