"""`ariane dledger status|transfer|step-down|add|remove`: a running DLedger group, asked at one of its members."""

import asyncio
from typing import Annotated

import typer

from ariane.cli.operate.output import print_json, print_table
from ariane.cli.operate.session import Json, new_group
from ariane.cli.serve import run
from ariane.dledger.group_status import GroupClient
from ariane.env import SystemClock
from ariane.errors import ClientError

app = new_group("DLedger groups: who leads, how far each member is; transfer the leadership, add and remove members.")
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
                one.problem,
            )
            for one in members
        ]
        heads = ("member", "address", "role", "runs", "term", "last", "committed", "broker", "problem")
        print_table(heads, rows, "the group has no members")

    run(work())


@app.command("transfer")
def transfer(address: Address, member: Annotated[str, typer.Argument(help="the id of the next leader")]) -> None:
    """Hand the leadership over to a member; returns when it leads."""

    async def work() -> None:
        group = GroupClient(address, SystemClock())
        try:
            await _hand_over(group, member)
        finally:
            await group.close()

    run(work())


@app.command("step-down")
def step_down(address: Address, member: Annotated[str, typer.Argument(help="the id of the one that leaves")]) -> None:
    """Before a member is stopped: if it leads, let the one with most of the log lead; else do nothing."""

    async def work() -> None:
        group = GroupClient(address, SystemClock())
        try:
            members = await group.status()
            if not any(one.id == member and one.role == "leader" for one in members):
                print(f"{member} does not lead")
                return
            others = [one for one in members if one.id != member and one.reachable]
            if not others:
                raise ClientError("no other member can be reached: the group has no majority without this one")
            await _hand_over(group, max(others, key=lambda one: one.end_index or -1).id)
        finally:
            await group.close()

    run(work())


async def _hand_over(group: GroupClient, member: str) -> None:
    await group.transfer(member)
    try:
        async with asyncio.timeout(30):
            members = await group.status()
            while not any(one.id == member and one.role == "leader" for one in members):
                await asyncio.sleep(0.1)
                members = await group.status()
    except TimeoutError:
        raise ClientError(f"{member} does not lead after 30 s: see `ariane dledger status`") from None
    print(f"{member} leads")


Force = Annotated[bool, typer.Option("--force", help="also when a member does not answer that may run Apache's broker")]


@app.command("add")
def add(
    address: Address,
    member: Annotated[str, typer.Argument(help="the id of the new member: a letter and a number, as n3")],
    new_address: Annotated[str, typer.Argument(help="its host:port, as in its own dLegerPeers")],
    force: Force = False,
) -> None:
    """Add a member and return when it votes: it first gets the log, which takes a while. Start it before or after.

    An add that is interrupted is completed by the group as soon as the new member has caught up.
    """

    async def work() -> None:
        group = GroupClient(address, SystemClock())
        try:
            await group.add(member, new_address, force=force)
            print(f"{member} is a member, and votes when it has caught up")
            votes = await group.votes(member)
            while not votes:
                await asyncio.sleep(0.2)
                votes = await group.votes(member)
        finally:
            await group.close()
        print(f"{member} votes")

    run(work())


@app.command("remove")
def remove(
    address: Address,
    member: Annotated[str, typer.Argument(help="the id of the member to remove; it may be down, or lead")],
    force: Force = False,
) -> None:
    """Remove a member and return when the group has committed that. Stop its process then."""

    async def work() -> None:
        group = GroupClient(address, SystemClock())
        try:
            await group.remove(member, force=force)
            async with asyncio.timeout(30):
                votes = await group.votes(member)
                while votes is not None:
                    await asyncio.sleep(0.1)
                    votes = await group.votes(member)
        except TimeoutError:
            raise typer.BadParameter(
                f"the removal of {member} is not committed after 30 s: see `ariane dledger status`"
            ) from None
        finally:
            await group.close()
        print(f"{member} is removed")

    run(work())


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
