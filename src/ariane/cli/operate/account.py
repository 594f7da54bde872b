"""`ariane acl list|update|delete`: the accounts of running brokers."""

from typing import Annotated

import typer

from ariane.cli.operate.output import print_json, print_table
from ariane.cli.operate.session import Json, Namesrv, Profile, Session, Yes, confirm
from ariane.client.admin import Admin
from ariane.client.admin.access import AccessAccount
from ariane.errors import ClientError

Key = Annotated[str, typer.Argument(help="the access key of the account")]
Broker = Annotated[str | None, typer.Option(help="only on the broker at this address")]


async def _addresses(admin: Admin, broker: str | None) -> list[str]:
    found = [broker] if broker else await admin.addresses()
    if not found:
        raise ClientError("no broker is registered with the name server: is one running?")
    return found


def list_accounts(
    broker: Broker = None, as_json: Json = False, namesrv: Namesrv = None, profile: Profile = None
) -> None:
    """List the accounts of brokers; secret keys are not shown."""

    async def work(admin: Admin) -> None:
        rules = {address: await admin.access_rules(address) for address in await _addresses(admin, broker)}
        for one in rules.values():
            for account in one.plain_access_configs:
                account.secret_key = None
        if as_json:
            print_json(rules)
            return
        rows = [
            (address, one.access_key, one.admin, one.default_topic_perm, one.default_group_perm,
             " ".join(one.topic_perms or ()), " ".join(one.group_perms or ()), one.white_remote_address)
            for address, found in rules.items()
            for one in found.plain_access_configs
        ]  # fmt: skip
        head = ["broker", "account", "admin", "topics", "groups", "topic rules", "group rules", "from"]
        print_table(head, rows, "no accounts")

    Session(namesrv, profile).run(work)


def update_account(
    access_key: Key,
    secret_key: Annotated[
        str, typer.Option(envvar="ARIANE_SECRET_KEY", prompt=True, hide_input=True, help="its secret")
    ],
    admin_account: Annotated[bool, typer.Option("--admin", help="it may administer")] = False,
    topic_default: Annotated[str | None, typer.Option(help="PUB, SUB, PUB|SUB or DENY")] = None,
    group_default: Annotated[str | None, typer.Option(help="SUB or DENY")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="topic=PUB|SUB; more than once")] = None,
    group: Annotated[list[str] | None, typer.Option(help="group=SUB; more than once")] = None,
    white_address: Annotated[str | None, typer.Option(help="addresses from which it needs no signature")] = None,
    broker: Broker = None,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Create an account on all brokers, or change it."""
    account = AccessAccount(
        access_key, secret_key, white_address, admin_account, topic_default, group_default, topic or [], group or []
    )

    async def work(admin: Admin) -> None:
        for address in await _addresses(admin, broker):
            await admin.update_account(address, account)
            print(f"{access_key} is an account of {address}")

    Session(namesrv, profile).run(work)


def delete_account(
    access_key: Key, broker: Broker = None, yes: Yes = False, namesrv: Namesrv = None, profile: Profile = None
) -> None:
    """Delete an account on all brokers."""
    confirm(f"Delete account {access_key}?", yes)

    async def work(admin: Admin) -> None:
        for address in await _addresses(admin, broker):
            await admin.delete_account(address, access_key)
            print(f"{access_key} is no account of {address} any more")

    Session(namesrv, profile).run(work)
