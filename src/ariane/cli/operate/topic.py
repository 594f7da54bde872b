"""`ariane topic`: create, list, describe, route, delete, grow."""

import asyncio
from typing import Annotated

import typer

from ariane.cli.admin.java_text import permission
from ariane.cli.operate.draining import QUIET, Patience, Quiet, TimeOut, await_consumed
from ariane.cli.operate.moments import show_moment
from ariane.cli.operate.output import print_facts, print_json, print_table
from ariane.cli.operate.session import Json, Namesrv, Profile, Session, Yes, confirm, new_group
from ariane.client.admin import Admin
from ariane.errors import ConfigError
from ariane.message import DLQ_PREFIX, RETRY_PREFIX

app = new_group("Create, list, describe and delete topics.")
Topic = Annotated[str, typer.Argument(help="a topic")]
Cluster = Annotated[str | None, typer.Option(help="only in this cluster")]


@app.command("create")
def create(
    topic: Topic,
    queues: Annotated[int, typer.Option("-q", "--queues", min=1, help="queues on each broker")] = 8,
    write_queues: Annotated[
        int | None, typer.Option(help="queues to write to, fewer than --queues to empty some")
    ] = None,
    perm: Annotated[str, typer.Option(help="rw, r or w")] = "rw",
    order: Annotated[bool, typer.Option(help="an ordered topic")] = False,
    cluster: Cluster = None,
    broker: Annotated[str | None, typer.Option(help="only on the broker at this address")] = None,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Create a topic on all masters, or change it."""
    bits = {"rw": 6, "r": 4, "w": 2}.get(perm.lower())
    if bits is None:
        raise ConfigError(f"--perm {perm}: give rw, r or w")

    async def work(admin: Admin) -> None:
        await admin.create_topic(
            topic, queues=queues, write_queues=write_queues, perm=bits, order=order, address=broker, cluster=cluster
        )
        where = [broker] if broker else await admin.masters(cluster)
        if as_json:
            print_json({"topic": topic, "queues": queues, "brokers": where})
        else:
            print(f"{topic} has {queues} queues on {', '.join(where)}")

    Session(namesrv, profile).run(work)


@app.command("list")
def list_topics(
    everything: Annotated[bool, typer.Option("--all", help="also retry, dead-letter and system topics")] = False,
    cluster: Cluster = None,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """List topics, one a line."""

    async def work(admin: Admin) -> None:
        topics = await admin.topics(cluster)
        if not everything:
            hidden = await asyncio.gather(*(admin.system_topics(address) for address in await admin.masters(cluster)))
            system = {name for names in hidden for name in names}
            topics = [one for one in topics if one not in system and not one.startswith((RETRY_PREFIX, DLQ_PREFIX))]
        if as_json:
            print_json(topics)
        else:
            for topic in topics:
                print(topic)

    Session(namesrv, profile).run(work)


@app.command("describe")
def describe(topic: Topic, as_json: Json = False, namesrv: Namesrv = None, profile: Profile = None) -> None:
    """Show the settings, queues and groups of a topic."""

    async def work(admin: Admin) -> None:
        data = await admin.route(topic)
        table = (await admin.topic_stats(topic)).offset_table
        groups = await admin.topic_groups(topic)
        if as_json:
            queues = [{"broker_name": q.broker_name, "queue_id": q.queue_id, "min_offset": o.min_offset,
                       "max_offset": o.max_offset, "last_stored": o.last_update_timestamp}
                      for q, o in sorted(table.items())]  # fmt: skip
            print_json({"topic": topic, "brokers": data.queue_datas, "queues": queues, "groups": groups})
            return
        count = sum(offsets.max_offset - offsets.min_offset for offsets in table.values())
        print_facts([("topic", topic), ("messages", count), ("groups", ", ".join(groups) or None)])
        print()
        rows = [
            (one.broker_name, one.read_queue_nums, one.write_queue_nums, permission(one.perm))
            for one in data.queue_datas
        ]
        print_table(["broker", "read queues", "write queues", "perm"], sorted(rows), "no broker has it")
        print()
        print_table(
            ["broker", "queue", "first", "end", "messages", "last stored"],
            [
                (q.broker_name, q.queue_id, o.min_offset, o.max_offset, o.max_offset - o.min_offset,
                 show_moment(o.last_update_timestamp))
                for q, o in sorted(table.items())
            ],
            "no queues",
        )  # fmt: skip

    Session(namesrv, profile).run(work)


@app.command("route")
def route(topic: Topic, as_json: Json = False, namesrv: Namesrv = None, profile: Profile = None) -> None:
    """Show which brokers serve a topic, as name servers tell clients."""

    async def work(admin: Admin) -> None:
        data = await admin.route(topic)
        if as_json:
            print_json(data)
            return
        queues = {one.broker_name: one for one in data.queue_datas}
        rows = [
            (
                one.cluster,
                one.broker_name,
                broker_id,
                address,
                queues[one.broker_name].read_queue_nums,
                queues[one.broker_name].write_queue_nums,
                permission(queues[one.broker_name].perm),
            )
            for one in sorted(data.broker_datas, key=lambda broker: broker.broker_name)
            for broker_id, address in sorted(one.broker_addrs.items())
        ]
        head = ["cluster", "broker", "id", "address", "read queues", "write queues", "perm"]
        print_table(head, rows, "no broker has it")

    Session(namesrv, profile).run(work)


@app.command("delete")
def delete(
    topic: Topic, cluster: Cluster = None, yes: Yes = False, namesrv: Namesrv = None, profile: Profile = None
) -> None:
    """Delete a topic and its messages."""
    confirm(f"Delete topic {topic} and all its messages?", yes)

    async def work(admin: Admin) -> None:
        await admin.route(topic)  # a name that is mistyped must not seem to be deleted
        await admin.delete_topic(topic, cluster=cluster)
        print(f"{topic} is deleted")

    Session(namesrv, profile).run(work)


@app.command("grow")
def grow(
    topic: Topic,
    queues: Annotated[int, typer.Argument(min=1, help="queues on each broker")],
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Give a topic more queues, keeping its other settings; consumers find them within half a minute."""

    async def work(admin: Admin) -> None:
        grown = await admin.grow_topic(topic, queues)
        if as_json:
            print_json(grown)
        else:
            print_table(
                ["broker", "before", "now"], [(one.address, one.before, one.after) for one in grown], "no master"
            )

    Session(namesrv, profile).run(work)


@app.command("shrink")
def shrink(
    topic: Topic,
    queues: Annotated[int, typer.Argument(min=1, help="queues on each broker that stay")],
    quiet: Quiet = QUIET,
    timeout: TimeOut = 3600.0,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Take queues from a topic without loss: close the last ones for writing, wait until they are consumed, drop them.

    Run it again if the wait takes too long: it goes on where it stopped.
    """

    async def work(admin: Admin) -> None:
        leaving = await admin.close_queues(topic, queues)
        print(f"{len(leaving)} queues of {topic} take no more messages; waiting until they are consumed ...")
        await await_consumed(admin, topic, leaving, Patience.of(quiet, timeout))
        await admin.drop_queues(topic, queues)
        print(f"{topic} has {queues} queues on each broker")

    Session(namesrv, profile).run(work)
