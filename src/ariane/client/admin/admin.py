"""The administration client."""

from typing import Unpack

from ariane.client.admin.access import AccessAdmin
from ariane.client.admin.brokers import BrokerAdmin
from ariane.client.admin.dead_letters import DeadLetterAdmin
from ariane.client.admin.lag import LagAdmin
from ariane.client.admin.transactions import TransactionAdmin
from ariane.client.options import ClientKeywords, ClientOptions
from ariane.env import Env


class Admin(DeadLetterAdmin, TransactionAdmin, LagAdmin, BrokerAdmin, AccessAdmin):
    """Administers a cluster. `address=` selects one broker; the default is all masters of the cluster."""

    def __init__(
        self, *, options: ClientOptions | None = None, env: Env | None = None, **keywords: Unpack[ClientKeywords]
    ) -> None:
        super().__init__("admin", "admin", ClientOptions.of(options, keywords), env, ())
