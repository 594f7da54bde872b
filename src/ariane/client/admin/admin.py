"""The administration client."""

from typing import Unpack

from ariane.client.admin.access import AccessAdmin
from ariane.client.admin.brokers import BrokerAdmin
from ariane.client.admin.dead_letters import DeadLetterAdmin
from ariane.client.admin.groups import is_system_group
from ariane.client.admin.lag import LagAdmin
from ariane.client.admin.transactions import TransactionAdmin
from ariane.client.options import ClientKeywords, ClientOptions
from ariane.env import Env
from ariane.message import DLQ_PREFIX


class Admin(DeadLetterAdmin, TransactionAdmin, LagAdmin, BrokerAdmin, AccessAdmin):
    """Administers a cluster. `address=` selects one broker; the default is all masters of the cluster."""

    def __init__(
        self, *, options: ClientOptions | None = None, env: Env | None = None, **keywords: Unpack[ClientKeywords]
    ) -> None:
        super().__init__("admin", "admin", ClientOptions.of(options, keywords), env, ())

    async def copy_topics(self, source: str, target: str) -> tuple[list[str], list[str]]:
        """Create the topics and groups of the broker at one address on another, with their settings.

        Topics that brokers keep for themselves are left out, and those that carry the source's name. Returns the names.
        """
        theirs = {*await self.system_topics(source), *await self.system_topics(target)}
        topics = (await self.topic_configs(source)).topic_config_table
        wanted = sorted(name for name in topics if name not in theirs and not name.startswith(DLQ_PREFIX))
        for name in wanted:
            config = topics[name]
            await self._resize(name, config, target, config.read_queue_nums, config.write_queue_nums)
        groups = (await self.groups(source)).subscription_group_table
        chosen = sorted(name for name in groups if not is_system_group(name))
        for name in chosen:
            await self.create_group(groups[name], address=target)
        return wanted, chosen
