"""Subcommands about access control."""

from ariane.cli.admin.call import Call
from ariane.cli.admin.java_text import day_time, fields_of, text
from ariane.client.admin.access import AccessAccount

VERSION = "%-16s  %-22s  %-22s  %-20s  %-22s  %-22s"


async def _addresses(call: Call) -> list[str]:
    """The broker of -b, or all brokers of the cluster of -c: slaves have rules of their own."""
    return [call.text("b")] if call.has("b") else await call.admin.addresses(call.cluster())


async def update(call: Call) -> None:
    """updateAclConfig."""
    account = AccessAccount(
        call.text("a"),
        call.optional("s"),
        call.optional("w"),
        call.boolean("m"),
        call.optional("i"),
        call.optional("u"),
        (call.optional("t") or "").split(",") if call.has("t") else [],
        (call.optional("g") or "").split(",") if call.has("g") else [],
    )
    for address in await _addresses(call):
        await call.admin.update_account(address, account)
        call.line(f"create or update plain access config to {address} success.")
    shown = fields_of(account) | {
        "secretKey": "******",
        "topicPerms": account.topic_perms or None,
        "groupPerms": account.group_perms or None,
    }
    call.line("PlainAccessConfig{" + ", ".join(f"{field}={text(value)}" for field, value in shown.items()) + "}")


async def delete(call: Call) -> None:
    """deleteAclConfig."""
    for address in await _addresses(call):
        await call.admin.delete_account(address, call.text("a"))
        call.line(f"delete plain access config account from {address} success.")
    call.line(f"account's accesskey is:{call.text('a')}")


async def white_addresses(call: Call) -> None:
    """updateGlobalWhiteAddr."""
    for address in await _addresses(call):
        await call.admin.set_white_addresses(address, call.text("g"), file=call.optional("p"))
        call.line(f"update global white remote addresses to {address} success.")


async def versions(call: Call) -> None:
    """clusterAclConfigVersion."""
    if not call.has("b"):
        head = ("#Broker Name", "#Broker Addr", "#AclFilePath", "#AclConfigVersionNum", "#AclLastUpdateTime")
        call.row(VERSION, "#Cluster Name", *head)
    for address in await call.masters():
        found = await call.admin.access_version(address)
        for file, version in found.files.items():
            when = day_time(version.timestamp)
            call.row(VERSION, found.cluster, found.broker_name, found.address, file, version.counter, when)
    call.line(f"get {'broker' if call.has('b') else 'cluster'}'s plain access config version success.")


async def show(call: Call) -> None:
    """getAclConfig."""
    for address in await call.masters():
        rules = await call.admin.access_rules(address)
        call.line(f"\n{'globalWhiteRemoteAddresses':<20}: {text(rules.global_white_addrs)}\n\naccounts:")
        for account in rules.plain_access_configs:
            for field, value in fields_of(account).items():
                call.line(f"{'':<1} {field:<18}: {'' if value in (None, []) else text(value)}")
            call.line()
