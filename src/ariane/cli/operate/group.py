"""`ariane group`: list, describe, lag, reset, delete, clients."""

import sys
from typing import Annotated

import typer

from ariane.cli.operate import offset
from ariane.cli.operate.moments import show_span
from ariane.cli.operate.output import print_facts, print_json, print_table
from ariane.cli.operate.session import (
    TOO_MUCH,
    DryRun,
    Json,
    Namesrv,
    Profile,
    Session,
    Watch,
    Yes,
    confirm,
    new_group,
)
from ariane.client.admin import Admin
from ariane.client.admin.lag import GroupLag, QueueBacklog
from ariane.errors import BrokerRefused, ClientError
from ariane.protocol.codes import ResponseCode
from ariane.protocol.versions import version_name

app = new_group("Consumer groups: who consumes, and how far behind.")
Group = Annotated[str, typer.Argument(help="a consumer group")]


@app.command("list")
def list_groups(
    abandoned: Annotated[
        bool, typer.Option("--abandoned", help="only those with waiting messages and no consumer online")
    ] = False,
    as_json: Json = False,
    watch: Watch = None,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """List groups with their lag."""

    async def work(admin: Admin) -> None:
        lags = [one for one in await admin.group_lags() if one.abandoned or not abandoned]
        if as_json:
            print_json([_summary(one) for one in lags])
            return
        rows = [
            (one.group, len(one.clients), one.consume_type.removeprefix("CONSUME_").lower(), one.message_model.lower(),
             one.consume_tps, one.lag, "no consumer online" if one.abandoned else "")
            for one in sorted(lags, key=lambda lag: -lag.lag)
        ]  # fmt: skip
        print_table(["group", "clients", "type", "model", "tps", "lag", ""], rows, "no group has consumed anything yet")

    Session(namesrv, profile).run(work, watch=watch)


def _summary(lag: GroupLag) -> dict[str, object]:
    return {
        "group": lag.group,
        "clients": len(lag.clients),
        "consume_type": lag.consume_type,
        "message_model": lag.message_model,
        "tps": lag.consume_tps,
        "lag": lag.lag,
        "abandoned": lag.abandoned,
    }


@app.command("lag")
def lag(
    group: Group,
    topic: Annotated[str | None, typer.Argument(help="only in this topic")] = None,
    max_lag: Annotated[int | None, typer.Option(help=f"exit with {TOO_MUCH} when more messages wait")] = None,
    as_json: Json = False,
    watch: Watch = None,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Show how far a group is behind in each queue, in messages and in time, who holds it, and what is wrong."""
    over = False

    async def work(admin: Admin) -> None:
        nonlocal over
        found = await admin.group_lag(group, topic)
        if not found.queues and not found.online:
            raise ClientError(f"group {group} has no offset{f' in {topic}' if topic else ''}: it has not consumed yet")
        over = max_lag is not None and found.lag > max_lag
        if as_json:
            print_json(lag_row(found))
        else:
            _show_lag(found)

    Session(namesrv, profile).run(work, watch=watch)
    if over:
        sys.exit(TOO_MUCH)


def lag_row(found: GroupLag) -> dict[str, object]:
    """A group's lag for programs."""
    return {
        **_summary(found),
        "behind_ms": found.behind_ms,
        "in_conflict": found.in_conflict,
        "silent": found.silent,
        "subscriptions": found.variants,
        "queues": [_queue_row(queue) for queue in found.queues],
    }


def _queue_row(one: QueueBacklog) -> dict[str, object]:
    return {
        "topic": one.queue.topic,
        "broker_name": one.queue.broker_name,
        "queue_id": one.queue.queue_id,
        "broker_offset": one.broker_offset,
        "consumer_offset": one.consumer_offset,
        "lag": one.lag,
        "behind_ms": one.behind_ms,
        "last_consumed": one.last_consumed,
        "owner": one.owner,
        "blocked": one.blocked,
    }


def _show_lag(found: GroupLag) -> None:
    rows = [
        (one.queue.topic, one.queue.broker_name, one.queue.queue_id, one.consumer_offset, one.broker_offset, one.lag,
         show_span(one.behind_ms), one.owner, one.blocked)
        for one in found.queues
    ]  # fmt: skip
    head = ["topic", "broker", "queue", "offset", "end", "lag", "behind", "owner", "blocked"]
    print_table(head, rows, "no offsets")
    behind = f", the oldest for {show_span(found.behind_ms)}" if found.lag else ""
    print(
        f"\n{found.group}: {found.lag} messages wait{behind}; {len(found.clients)} clients, {found.consume_tps:.1f}/s"
    )
    if found.abandoned:
        print("warning: no consumer of the group is online")
    if found.silent:
        print(f"warning: no state from {', '.join(found.silent)}")
    if found.in_conflict:
        print("warning: its clients subscribe differently, so that messages are lost to some of them:")
        for variant in found.variants:
            wanted = "; ".join(f"{topic}: {expression}" for topic, expression in variant.expressions.items())
            print(f"  {', '.join(variant.clients)}: {wanted or 'nothing'}")


@app.command("describe")
def describe(group: Group, as_json: Json = False, namesrv: Namesrv = None, profile: Profile = None) -> None:
    """Show the settings of a group on each broker, its clients and its subscriptions."""

    async def work(admin: Admin) -> None:
        configs = {}
        for address in await admin.masters():
            config = (await admin.groups(address)).subscription_group_table.get(group)
            if config is not None:
                configs[address] = config
        if not configs:
            raise ClientError(f"no broker has a group {group}: `ariane group list` shows those that there are")
        try:
            online = await admin.consumer_connections(group)
        except BrokerRefused as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            online = None
        if as_json:
            print_json({"group": group, "settings": configs, "online": online})
            return
        rows = [
            (address, one.consume_enable, one.consume_broadcast_enable, one.retry_max_times, one.retry_queue_nums)
            for address, one in configs.items()
        ]
        print_table(["broker", "may consume", "may broadcast", "retries", "retry queues"], rows, "no broker has it")
        print()
        if online is None:
            print("no consumer is online")
            return
        facts: list[tuple[str, object]] = [("type", online.consume_type), ("model", online.message_model)]
        facts += [(f"subscribes {one.topic}", one.sub_string) for one in online.subscription_table.values()]
        print_facts([*facts, ("clients", len(online.connection_set))])

    Session(namesrv, profile).run(work)


@app.command("clients")
def clients(group: Group, as_json: Json = False, namesrv: Namesrv = None, profile: Profile = None) -> None:
    """List the consumers of a group that are online."""

    async def work(admin: Admin) -> None:
        try:
            found = (await admin.consumer_connections(group)).connection_set
        except BrokerRefused as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            found = []
        if as_json:
            print_json(found)
            return
        rows = [(one.client_id, one.client_addr, one.language, version_name(one.version)) for one in found]
        print_table(["client", "address", "language", "version"], rows, f"no consumer of {group} is online")

    Session(namesrv, profile).run(work)


@app.command("delete")
def delete(
    group: Group,
    offsets: Annotated[bool, typer.Option("--offsets", help="forget its offsets too")] = False,
    yes: Yes = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Delete a group on all masters."""
    confirm(f"Delete group {group}{' and its offsets' if offsets else ''}?", yes)

    async def work(admin: Admin) -> None:
        await admin.delete_group(group, remove_offsets=offsets)
        print(f"{group} is deleted")

    Session(namesrv, profile).run(work)


@app.command("reset")
def reset(
    group: Group,
    topic: Annotated[str, typer.Argument(help="in this topic")],
    to: offset.To,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Move a group to a time; its consumers may be running."""
    offset.move(group, topic, to, dry_run, yes, as_json, Session(namesrv, profile))
