"""Access rules of a cluster's brokers: read without secrets, compared, and asked questions."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Final

from ariane.access.accounts import PERMISSIONS
from ariane.access.explain import explain
from ariane.access.rules import Rules
from ariane.access.rules_file import WHITE, parse_rules
from ariane.client.admin import Admin
from ariane.client.admin.access import AccessAccount, AccessRules
from ariane.console.cluster import Cluster
from ariane.errors import ArianeError, ConfigError
from ariane.message import retry_topic

PATIENCE: Final = 5.0  # seconds for the rules of a broker
ANY_SECRET: Final = "not a secret"


@dataclass(frozen=True)
class Account:
    """An account as pages show it and changes compare it: everything but the secret key."""

    access_key: str
    admin: bool = False
    default_topic: str = "DENY"
    default_group: str = "DENY"
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    white: str = ""

    @classmethod
    def of(cls, account: AccessAccount) -> "Account":
        """Leave the secret out."""
        return cls(
            account.access_key,
            account.admin,
            account.default_topic_perm or "DENY",
            account.default_group_perm or "DENY",
            tuple(account.topic_perms or ()),
            tuple(account.group_perms or ()),
            account.white_remote_address or "",
        )

    def with_secret(self, secret: str | None) -> AccessAccount:
        """As a broker takes it."""
        return AccessAccount(
            self.access_key,
            secret,
            self.white or None,
            self.admin,
            self.default_topic,
            self.default_group,
            list(self.topics),
            list(self.groups),
        )


@dataclass(frozen=True)
class BrokerAccess:
    """The rules of one broker; `problem` says why there are none."""

    broker: str
    address: str
    accounts: dict[str, Account] = field(default_factory=dict)
    white: tuple[str, ...] = ()
    problem: str | None = None


Accounts = dict[str, Account]
"""An account by the address of the broker that has it."""


def having(brokers: list[BrokerAccess], access_key: str) -> Accounts:
    """An account as each broker has it."""
    return {one.address: one.accounts[access_key] for one in brokers if access_key in one.accounts}


async def read_access(cluster: Cluster) -> list[BrokerAccess]:
    """The rules of every broker."""

    async def one(broker: str, address: str) -> BrokerAccess:
        try:
            async with asyncio.timeout(PATIENCE):
                # Apache's brokers never answer a question about rules that are off: look at the option first.
                if (await cluster.admin.broker_options(address)).get("aclEnable", "").lower() != "true":
                    return BrokerAccess(broker, address, problem="off")
                rules = await cluster.admin.access_rules(address)
        except TimeoutError:
            return BrokerAccess(broker, address, problem=f"no answer within {PATIENCE:.0f} s")
        except ArianeError as error:
            return BrokerAccess(broker, address, problem=str(error))
        return access_of(broker, address, rules)

    brokers = await cluster.brokers()
    return list(await asyncio.gather(*(one(status.name, status.address) for status in brokers)))


def access_of(broker: str, address: str, rules: AccessRules) -> BrokerAccess:
    """The rules of a broker without their secrets."""
    accounts = {one.access_key: Account.of(one) for one in rules.plain_access_configs}
    return BrokerAccess(broker, address, accounts, tuple(rules.global_white_addrs))


async def secret_of(admin: Admin, address: str, access_key: str) -> tuple[str | None, bool]:
    """The secret that a change must send with an account to keep it, and whether the broker masks and keeps it itself.

    Apache's brokers show secrets, and need them at every change. The value goes back to the same broker, and nowhere
    else.
    """
    for one in (await admin.access_rules(address)).plain_access_configs:
        if one.access_key == access_key and one.secret_key:
            masked = set(one.secret_key) == {"*"}
            return None if masked else one.secret_key, masked
    return None, False


def rules_of(access: BrokerAccess) -> Rules:
    """The rules for questions; ConfigError names what is wrong in them."""
    accounts: list[dict[str, Any]] = [
        {
            "accessKey": one.access_key,
            "secretKey": ANY_SECRET,
            "admin": one.admin,
            "whiteRemoteAddress": one.white,
            "defaultTopicPerm": one.default_topic,
            "defaultGroupPerm": one.default_group,
            "topicPerms": list(one.topics),
            "groupPerms": list(one.groups),
        }
        for one in access.accounts.values()
    ]
    text = json.dumps({WHITE: list(access.white), "accounts": accounts})
    return Rules.join([parse_rules(text, access.address)])


def may(
    access: BrokerAccess, access_key: str, right: str, topic: str, group: str, address: bytes | None
) -> tuple[bool, str]:
    """Whether an account may do something at a broker, and why."""
    try:
        return explain(rules_of(access), access_key, PERMISSIONS[right], topic or retry_topic(group), address)
    except ConfigError as error:
        return False, str(error)


def check_account(account: Account) -> None:
    """ConfigError for an account that a broker would refuse, or that would keep it from starting."""
    rules = rules_of(BrokerAccess("", "", {account.access_key: account}))
    for entry in (*account.topics, *account.groups):
        if "," in entry:
            raise ConfigError(f"{entry}: an entry has no comma")
    bad = [warning for warning in rules.warnings() if "none of DENY" in warning]
    if bad:
        raise ConfigError(bad[0])


def check_white(patterns: tuple[str, ...]) -> None:
    """ConfigError for addresses that are none; Apache's brokers take them and fail at their next start."""
    rules_of(BrokerAccess("", "", white=patterns))
