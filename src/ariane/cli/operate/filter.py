"""`ariane filter list|show|remove`: the filters that consumers have uploaded to brokers."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ariane.cli.operate.broker import find_address
from ariane.cli.operate.moments import show_moment
from ariane.cli.operate.output import print_facts, print_json, print_table
from ariane.cli.operate.session import Json, Namesrv, Profile, Session, Yes, confirm, new_group
from ariane.client.admin import Admin
from ariane.errors import ArianeError, ClientError
from ariane.protocol.bodies import FilterRecord

app = new_group("Filters in WebAssembly that consumers have uploaded.")
Group = Annotated[str, typer.Argument(help="a consumer group")]
Topic = Annotated[str, typer.Argument(help="a topic")]
Broker = Annotated[str | None, typer.Option("--broker", help="a broker: its name, or its address; all without it")]


async def _found(admin: Admin, broker: str | None) -> list[tuple[str, FilterRecord]]:
    """Every filter with the address of its broker. A broker that has no filters, as Apache's, is left out."""
    if broker is not None:
        address = await find_address(admin, broker)
        return [(address, record) for record in await admin.filters(address)]
    info = await admin.cluster_info()
    addresses = sorted(one for data in info.broker_addr_table.values() for one in data.broker_addrs.values())
    answers = await asyncio.gather(*(admin.filters(one) for one in addresses), return_exceptions=True)
    rows: list[tuple[str, FilterRecord]] = []
    refused: list[ArianeError] = []
    for address, answer in zip(addresses, answers, strict=True):
        if isinstance(answer, ArianeError):
            refused.append(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            rows += [(address, record) for record in answer]
    if refused and len(refused) == len(addresses):
        raise refused[0]
    return rows


async def _of(admin: Admin, group: str, topic: str, broker: str | None) -> list[tuple[str, FilterRecord]]:
    rows = await _found(admin, broker)
    wanted = [row for row in rows if (row[1].consumer_group, row[1].topic) == (group, topic)]
    if not wanted:
        raise ClientError(f"{group} has no filter for {topic}: `ariane filter list` shows those that exist")
    return wanted


def _facts(address: str, record: FilterRecord) -> dict[str, str]:
    return {
        "broker": address,
        "group": record.consumer_group,
        "topic": record.topic,
        "name": record.name,
        "sha256": record.sha256,
        "bytes": str(record.bytes),
        "run by": "filter servers" if record.filter_server else "the broker",
        "uploaded by": record.uploaded_by,
        "uploaded at": show_moment(record.uploaded_at),
    }


@app.command("list")
def list_filters(
    broker: Broker = None, as_json: Json = False, namesrv: Namesrv = None, profile: Profile = None
) -> None:
    """List the filters of all brokers."""

    async def work(admin: Admin) -> None:
        rows = [_facts(*row) for row in await _found(admin, broker)]
        if as_json:
            print_json(rows)
            return
        names = ["broker", "group", "topic", "name", "bytes", "run by", "uploaded by", "uploaded at"]
        shown = [(*(row[name] for name in names), row["sha256"][:12]) for row in rows]
        print_table([*names, "sha256"], shown, "no consumer has uploaded a filter")

    Session(namesrv, profile).run(work)


@app.command("show")
def show(
    group: Group,
    topic: Topic,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="write the module to this file")] = None,
    broker: Broker = None,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Show the filter of a group for a topic; with -o write its bytes to a file."""

    async def work(admin: Admin) -> None:
        rows = await _of(admin, group, topic, broker)
        if output is not None:
            output.write_bytes(await admin.filter_module(rows[0][0], group, topic))
        if as_json:
            print_json([_facts(*row) for row in rows])
            return
        for row in rows:
            print_facts(list(_facts(*row).items()))

    Session(namesrv, profile).run(work)


@app.command("remove")
def remove(
    group: Group,
    topic: Topic,
    broker: Broker = None,
    yes: Yes = False,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Remove a filter: the group gets nothing of the topic until one of its consumers is restarted and uploads again.

    To keep it from uploading, take the group off `filterGroups` of its account first.
    """
    confirm(f"Remove the filter of {group} for {topic}? The group consumes nothing of it until it uploads one.", yes)

    async def work(admin: Admin) -> None:
        rows = await _of(admin, group, topic, broker)
        for address, _ in rows:
            await admin.remove_filter(address, group, topic)
        if as_json:
            print_json([address for address, _ in rows])
        else:
            print_table(["removed from"], [(address,) for address, _ in rows], "nothing")

    Session(namesrv, profile).run(work)
