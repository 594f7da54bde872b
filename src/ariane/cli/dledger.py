"""`ariane dledger status|transfer`: a running DLedger group, asked at the port of one of its members."""

import asyncio
from typing import Annotated

import typer

from ariane.cli.operate.output import print_json, print_table
from ariane.cli.operate.session import Json, new_group
from ariane.cli.serve import run
from ariane.dledger.group_status import GroupClient
from ariane.env import SystemClock

app = new_group("DLedger groups: who leads, how far each member is, handing the leadership over.")
Address = Annotated[str, typer.Argument(help="host:port of any Ariane member, as in dLegerPeers")]


@app.command("status")
def status(address: Address, as_json: Json = False) -> None:
    """Show the members of a group: role, term, and the last entry that each has and knows to be committed."""

    async def work() -> None:
        group = GroupClient(address, SystemClock())
        try:
            members = await group.status()
        finally:
            await group.close()
        if as_json:
            print_json(members)
            return
        rows = [
            (
                one.id,
                one.address,
                one.role if one.reachable else "unreachable",
                one.kind,
                _text(one.term),
                _text(one.end_index),
                _text(one.committed_index),
                one.broker,
            )
            for one in members
        ]
        heads = ("member", "address", "role", "runs", "term", "last", "committed", "broker")
        print_table(heads, rows, "the group has no members")

    run(work())


@app.command("transfer")
def transfer(address: Address, member: Annotated[str, typer.Argument(help="the id of the next leader")]) -> None:
    """Hand the leadership over, for example before a host is stopped; returns when the member leads."""

    async def work() -> None:
        group = GroupClient(address, SystemClock())
        try:
            await group.transfer(member)
            async with asyncio.timeout(30):
                members = await group.status()
                while not any(one.id == member and one.role == "leader" for one in members):
                    await asyncio.sleep(0.1)
                    members = await group.status()
        except TimeoutError:
            raise typer.BadParameter(f"{member} does not lead after 30 s: see `ariane dledger status`") from None
        finally:
            await group.close()
        print(f"{member} leads")

    run(work())


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
