"""Changes of access rules: on every broker that has them, never with a secret in a log, and never without an exit."""

from dataclasses import asdict
from typing import Any

from ariane.console.access import (
    Account,
    Accounts,
    BrokerAccess,
    access_of,
    check_account,
    check_white,
    having,
    read_access,
    secret_of,
)
from ariane.console.change import Door, Stale
from ariane.console.cluster import Cluster
from ariane.console.people.visitor import Visitor
from ariane.errors import ArianeError, ClientError


class AccessChanges(Door):
    """Accounts and white addresses."""

    async def update_account(
        self,
        who: Visitor,
        cluster: Cluster,
        account: Account,
        secret: str | None,
        expected: Accounts,
        addresses: list[str],
    ) -> None:
        """Create an account on brokers, or change it there. Without a secret an account keeps the one that it has."""

        async def before() -> dict[str, Any]:
            return _shown(having(await read_access(cluster), account.access_key))

        async def work() -> None:
            check_account(account)
            brokers = await _fresh(cluster, account.access_key, expected)
            if not account.admin or account.topics or account.groups:
                _keep_an_exit(cluster, brokers, account.access_key, addresses)
            for address in addresses:
                try:
                    await self._write(cluster, address, account, secret)
                except ArianeError as error:
                    text = str(error).replace(secret, "***") if secret else str(error)
                    done = addresses[: addresses.index(address)]
                    raise ClientError(f"{address}: {text}; changed before: {', '.join(done) or 'none'}") from None

        after = _shown(dict.fromkeys(addresses, account))
        after["secret"] = "kept" if secret is None else "set"
        await self._make(who, "access.account", cluster, account.access_key, work, before=before, after=after)

    async def _write(self, cluster: Cluster, address: str, account: Account, secret: str | None) -> None:
        admin = cluster.admin
        kept, masked = await secret_of(admin, address, account.access_key)
        secret = secret or kept
        await admin.update_account(address, account.with_secret(secret), clear=masked)
        now = access_of("", address, await admin.access_rules(address)).accounts.get(account.access_key)
        if now != account and not masked:  # Apache's brokers keep what is to be emptied
            await admin.delete_account(address, account.access_key)
            await admin.update_account(address, account.with_secret(secret))
            now = access_of("", address, await admin.access_rules(address)).accounts.get(account.access_key)
        if now != account:
            raise ClientError(f"the broker has {now} now")

    async def delete_account(self, who: Visitor, cluster: Cluster, access_key: str, expected: Accounts) -> None:
        """Delete an account on every broker that has it."""

        async def work() -> None:
            brokers = await _fresh(cluster, access_key, expected)
            _keep_an_exit(cluster, brokers, access_key, list(expected))
            for address in expected:
                await cluster.admin.delete_account(address, access_key)

        before = _shown(expected)
        await self._make(who, "access.delete", cluster, access_key, work, before=before)

    async def set_white(
        self, who: Visitor, cluster: Cluster, address: str, patterns: tuple[str, ...], expected: tuple[str, ...]
    ) -> None:
        """Set the addresses that a broker asks for no keys."""

        async def work() -> None:
            check_white(patterns)
            now = next((one.white for one in await read_access(cluster) if one.address == address), None)
            if now != expected:
                raise Stale("the addresses were changed meanwhile: look at them again")
            await cluster.admin.set_white_addresses(address, ",".join(patterns))

        await self._make(who, "access.white", cluster, address, work, before=list(expected), after=list(patterns))


async def _fresh(cluster: Cluster, access_key: str, expected: Accounts) -> list[BrokerAccess]:
    brokers = await read_access(cluster)
    if having(brokers, access_key) != expected:
        raise Stale(f"{access_key} was changed meanwhile: look at it again")
    return brokers


def _keep_an_exit(cluster: Cluster, brokers: list[BrokerAccess], access_key: str, addresses: list[str]) -> None:
    """The console keeps its own account, and every broker an administrator."""
    if access_key == cluster.admin.options.access_key:
        raise ClientError(f"{access_key} is the account of the console itself: it keeps its rights")
    for one in brokers:
        if one.address not in addresses or not one.accounts.get(access_key, Account("")).admin:
            continue
        if not any(other.admin for key, other in one.accounts.items() if key != access_key):
            raise ClientError(f"{access_key} is the only administrator of {one.address}: make another one first")


def _shown(accounts: Accounts) -> dict[str, Any]:
    return {address: {key: value for key, value in asdict(one).items() if value} for address, one in accounts.items()}
