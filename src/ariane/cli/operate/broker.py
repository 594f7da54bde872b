"""`ariane broker status|timers|config|drain|copy-topics|promote`: running brokers. `ariane broker` alone starts one."""

from dataclasses import asdict
from typing import Annotated

import typer

from ariane.cli.operate.cluster import show, status_row
from ariane.cli.operate.draining import QUIET, Patience, Quiet, TimeOut, await_drained
from ariane.cli.operate.output import print_facts, print_json, print_table
from ariane.cli.operate.session import Json, Namesrv, Profile, Session, Watch, Yes, confirm, new_group
from ariane.client.admin import Admin
from ariane.errors import ClientError, ConfigError

app = new_group("Running brokers: status, options, draining, promotion of a slave.")
Which = Annotated[str, typer.Argument(help="a broker: its name, or its address")]


async def find_address(admin: Admin, which: str) -> str:
    """The address of a broker; a name is its master's."""
    info = await admin.cluster_info()
    broker = info.broker_addr_table.get(which)
    if broker is not None:
        return broker.broker_addrs.get(0) or next(iter(broker.broker_addrs.values()))
    if ":" not in which:
        known = ", ".join(sorted(info.broker_addr_table)) or "none"
        raise ClientError(f"no broker is called {which}; the name server knows {known}")
    return which


@app.command("status")
def status(
    which: Annotated[str | None, typer.Argument(help="a broker: its name, or its address; all without it")] = None,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Show the figures of a broker, or a line for each."""

    async def work(admin: Admin) -> None:
        if which is None:
            brokers = await admin.brokers()
            print_json([status_row(one) for one in brokers]) if as_json else show(brokers)
            return
        stats = await admin.broker_stats(await find_address(admin, which))
        print_json(stats) if as_json else print_facts(sorted(stats.items()))

    Session(namesrv, profile).run(work)


@app.command("timers")
def timers(
    which: Annotated[str | None, typer.Argument(help="a broker: its name, or its address; all without it")] = None,
    as_json: Json = False,
    watch: Watch = None,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Show how many messages wait for their delivery time, by when they are due."""

    async def work(admin: Admin) -> None:
        if which is None:
            addresses = [one.address for one in await admin.brokers() if one.error is None]
        else:
            addresses = [await find_address(admin, which)]
        rows = [asdict(await admin.pending_timers(address)) for address in addresses]
        if as_json:
            print_json(rows)
            return
        heads = ["broker", "pending", "due within a minute", "an hour", "a day", "later", "delivered since its start"]
        print_table(heads, [tuple(row.values()) for row in rows], "no broker answers")

    Session(namesrv, profile).run(work, watch=watch)


@app.command("config")
def config(
    which: Which,
    changes: Annotated[list[str] | None, typer.Argument(help="option=value, to change it")] = None,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Show the options of a broker, or change some while it runs."""
    wanted = dict(one.split("=", 1) for one in changes or () if "=" in one)
    if len(wanted) != len(changes or ()):
        raise ConfigError("give changes as option=value")

    async def work(admin: Admin) -> None:
        address = await find_address(admin, which)
        if wanted:
            await admin.update_broker(address, wanted)
        options = await admin.broker_options(address)
        shown = {name: options.get(name, "") for name in wanted} or options
        print_json(shown) if as_json else print_facts(sorted(shown.items()))

    Session(namesrv, profile).run(work)


@app.command("drain")
def drain(
    name: Annotated[str, typer.Argument(help="the name of a broker")],
    undo: Annotated[bool, typer.Option("--undo", help="let it be written to again; so does its restart")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="return when no message arrives any more and its slaves have all")
    ] = False,
    consumed: Annotated[
        bool, typer.Option("--consumed", help="wait until every group has consumed all of it, too")
    ] = False,
    quiet: Quiet = QUIET,
    timeout: TimeOut = 600.0,
    if_master: Annotated[
        str | None, typer.Option("--if-master", help="do nothing unless the master has this address: for stop hooks")
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Take a broker out of the routes for writing, so that it empties: producers turn to others, consumers go on.

    Its restart puts it back. Exits with 1 when `--wait` takes longer than `--timeout`: run it again to wait on.
    """
    if not undo:
        confirm(f"Take {name} out of the routes for writing, until `ariane broker drain {name} --undo`?", yes)

    async def work(admin: Admin) -> None:
        table = (await admin.cluster_info()).broker_addr_table
        if name not in table:
            raise ClientError(f"no broker is called {name}: `ariane cluster` lists them")
        if if_master is not None and table[name].broker_addrs.get(0) != if_master:
            print(f"{if_master} is not the master of {name}")
            return
        counts = await (admin.add_write_perm(name) if undo else admin.wipe_write_perm(name))
        if as_json:
            print_json(counts)
        else:
            print_table(["name server", "topics changed"], list(counts.items()), "no name server")
        if (wait or consumed) and not undo:
            facts = await await_drained(admin, name, Patience.of(quiet, timeout), consumed=consumed)
            print_json(facts) if as_json else print_facts(list(facts.items()))

    Session(namesrv, profile).run(work)


@app.command("copy-topics")
def copy_topics(
    source: Annotated[str, typer.Argument(help="a broker: its name, or its address")],
    target: Annotated[str, typer.Argument(help="the broker to prepare: its name, or its address")],
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Create the topics and groups of one broker on another, with their settings: for a broker that joins."""

    async def work(admin: Admin) -> None:
        topics, groups = await admin.copy_topics(await find_address(admin, source), await find_address(admin, target))
        facts = {"topics": len(topics), "groups": len(groups)}
        print_json({"topics": topics, "groups": groups}) if as_json else print_facts(list(facts.items()))

    Session(namesrv, profile).run(work)


@app.command("promote")
def promote(
    which: Annotated[str, typer.Argument(help="a slave: its address, or its broker's name if that has one slave")],
    force: Annotated[
        bool, typer.Option("--force", help="although the master answers, or another slave has more of the log")
    ] = False,
    sync: Annotated[bool, typer.Option("--sync", help="as SYNC_MASTER: sends wait for a copy")] = False,
    yes: Yes = False,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Make a slave the master, under a new epoch. The old master follows it when it is back; docs/replication.md."""
    confirm(f"Make {which} the master? What only the old master has is dropped when that one is back.", yes)

    async def work(admin: Admin) -> None:
        name, address = await find_slave(admin, which)
        epoch, end = await admin.promote_broker(address, name, force=force, sync=sync)
        facts = {"broker": name, "address": address, "epoch": str(epoch), "begins at": str(end)}
        print_json(facts) if as_json else print_facts(list(facts.items()))

    Session(namesrv, profile).run(work)


async def find_slave(admin: Admin, which: str) -> tuple[str, str]:
    """Broker name and address of a slave."""
    table = (await admin.cluster_info()).broker_addr_table
    for name, broker in table.items():
        slaves = [address for broker_id, address in sorted(broker.broker_addrs.items()) if broker_id > 0]
        if which == name and len(slaves) == 1:
            return name, slaves[0]
        if which == name:
            raise ClientError(f"{name} has {len(slaves)} slaves: give one address ({', '.join(slaves) or 'none'})")
        if which in broker.broker_addrs.values():
            return name, which
    raise ClientError(f"no broker is called {which} or has this address: `ariane cluster` lists them")
