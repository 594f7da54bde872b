"""Subcommands about groups and their clients."""

from ariane.cli.admin import topics
from ariane.cli.admin.call import Call
from ariane.cli.admin.java_text import bean, day_time, fields_of, group_config, text
from ariane.errors import ArianeError, BrokerRefused
from ariane.message import DLQ_PREFIX, RETRY_PREFIX, MessageQueue
from ariane.protocol.bodies import ConsumerConnection, ConsumeStats, SubscriptionGroupConfig
from ariane.protocol.codes import ResponseCode
from ariane.protocol.versions import version_name

CONNECTION = "%-36s %-22s %-10s %s"
PROGRESS = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s"
PROGRESS_WITH_CLIENT = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s  %s"
GROUPS = "%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s"
NO_STATS = (
    "Not found the consumer group consume stats, because return offset table is empty, "
    "maybe the consumer not consume any message"
)


async def update_group(call: Call) -> None:
    """updateSubGroup."""
    config = SubscriptionGroupConfig(
        call.text("g"),
        call.boolean("s", True),
        call.boolean("m"),
        call.boolean("d"),
        call.number("q", 1),
        call.number("r", 16),
        call.number("i"),
        call.number("w", 1),
        call.boolean("a", True),
    )
    for address in await call.masters():
        await call.admin.create_group(config, address=address)
        call.line(f"create subscription group to {address} success.")
    call.line(group_config(config))


async def delete_group(call: Call) -> None:
    """deleteSubGroup."""
    group, remove = call.text("g"), call.boolean("r")
    for address in await call.masters():
        await call.admin.delete_group(group, remove_offsets=remove, address=address)
        where = "" if call.has("b") else f" in cluster [{call.cluster()}]"
        call.line(f"delete subscription group [{group}] from broker [{address}]{where} success.")
    if not call.has("b"):
        await topics.delete(call, RETRY_PREFIX + group, call.cluster())
        await topics.delete(call, DLQ_PREFIX + group, call.cluster())


async def configs(call: Call) -> None:
    """getConsumerConfig."""
    group, info = call.text("g"), await call.admin.cluster_info()
    for name, broker in info.broker_addr_table.items():
        address = broker.broker_addrs.get(0) or next(iter(broker.broker_addrs.values()))
        config = (await call.admin.groups(address)).subscription_group_table.get(group)
        if config is None:
            continue
        cluster = next((one for one, names in info.cluster_addr_table.items() if name in names), None)
        line = "=" * 29
        call.line(f"{line}{text(cluster)}:{name}{line}")
        for field, value in fields_of(config).items():
            call.line(f"{field:<40}=  {text(value)}")


async def connections(call: Call) -> None:
    """consumerConnection."""
    found = await online(call, call.text("g"))
    call.row(CONNECTION, "#ClientId", "#ClientAddr", "#Language", "#Version")
    for one in found.connection_set:
        call.row(CONNECTION, one.client_id, one.client_addr, one.language, version_name(one.version))
    call.line("\nBelow is subscription:")
    call.row("%-20s %s", "#Topic", "#SubExpression")
    for wanted in found.subscription_table.values():
        call.row("%-20s %s", wanted.topic, wanted.sub_string)
    call.line()
    call.line(f"ConsumeType: {found.consume_type}")
    call.line(f"MessageModel: {found.message_model}")
    call.line(f"ConsumeFromWhere: {found.consume_from_where}")


async def online(call: Call, group: str) -> ConsumerConnection:
    """The consumers of a group, as one broker knows them; BrokerRefused when none is online."""
    if not call.has("b"):
        await call.admin.route(RETRY_PREFIX + group)  # a group that never consumed has none
    return await call.admin.consumer_connections(group, address=call.optional("b"))


async def producers_of_group(call: Call) -> None:
    """producerConnection."""
    found = await call.admin.producer_connections(call.text("g"), call.text("t"))
    for number, one in enumerate(found.connection_set, 1):
        row = (number, one.client_id, one.client_addr, one.language, version_name(one.version))
        call.row("%04d  %-32s %-22s %-8s %s", *row)


async def producers(call: Call) -> None:
    """producer."""
    for group, found in (await call.admin.producers(call.text("b"))).items():
        if not found:
            call.line(f"producer group ({group}) instances are empty")
        for one in found:
            shown = (
                f"clientId={one.client_id},remoteIP={one.remote_ip}, language={one.language}, version={one.version}, "
                f"lastUpdateTimestamp={one.last_update_timestamp}"
            )
            call.line(f"producer group ({group}) instance : {shown}")


async def progress(call: Call) -> None:
    """consumerProgress."""
    if not call.has("g"):
        await _all_groups(call)
        return
    group, with_clients = call.text("g"), call.boolean("s")
    stats = await stats_of(call, group)
    owners = await _owners(call, group) if with_clients else {}
    head = ["#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime"]
    if with_clients:
        head.insert(5, "#Client IP")
    form = PROGRESS_WITH_CLIENT if with_clients else PROGRESS
    call.row(form, *head)
    total = 0
    for queue, offsets in sorted(stats.offset_table.items()):
        diff = offsets.broker_offset - offsets.consumer_offset
        total += diff
        row: list[object] = [queue.topic[:64], queue.broker_name[:32], queue.queue_id, offsets.broker_offset]
        row += [offsets.consumer_offset, diff, day_time(offsets.last_timestamp) if offsets.last_timestamp else "N/A"]
        if with_clients:
            row.insert(5, owners.get(queue, "N/A"))
        call.row(form, *row)
    call.line()
    call.line(f"Consume TPS: {stats.consume_tps:.2f}")
    call.line(f"Diff Total: {total}")


async def stats_of(call: Call, group: str) -> ConsumeStats:
    """The offsets of a group on the brokers of its retry topic; BrokerRefused when it has none."""
    await call.admin.route(RETRY_PREFIX + group)
    stats = await call.admin.consume_stats(group)
    if not stats.offset_table:
        code = ResponseCode.CONSUMER_NOT_ONLINE
        raise BrokerRefused(code, NO_STATS, "", f"group {group} has no offsets: it has not consumed anything yet")
    return stats


async def _owners(call: Call, group: str) -> dict[MessageQueue, str]:
    """The addresses of the clients by the queues that they hold."""
    owners: dict[MessageQueue, str] = {}
    try:
        for one in (await online(call, group)).connection_set:
            info = await call.admin.consumer_running_info(group, one.client_id)
            owners |= dict.fromkeys(info.mq_table, one.client_id.split("@")[0])
    except ArianeError:
        pass  # offline: nothing is held
    return owners


async def _all_groups(call: Call) -> None:
    call.row(GROUPS, "#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    for topic in await call.admin.topics():
        if not topic.startswith(RETRY_PREFIX):
            continue
        group = topic.removeprefix(RETRY_PREFIX)
        tps, behind, count, version, kind, model = 0, 0, 0, "OFFLINE", "", ""
        try:
            stats = await stats_of(call, group)
            tps = int(stats.consume_tps)
            behind = sum(one.broker_offset - one.consumer_offset for one in stats.offset_table.values())
        except ArianeError:
            pass  # no offsets
        try:
            found = await online(call, group)
            count = len(found.connection_set)
            version = version_name(min(one.version for one in found.connection_set))
            kind = "PULL" if found.consume_type == "CONSUME_ACTIVELY" else "PUSH"
            model = found.message_model if kind == "PUSH" else ""
        except (ArianeError, ValueError):
            pass  # offline
        call.row(GROUPS, group[:64], count, version, kind, model, tps, behind)


def direct_result(result: object) -> str:
    """`ConsumeMessageDirectlyResult.toString`."""
    return bean("ConsumeMessageDirectlyResult", fields_of(result))  # type: ignore[arg-type]
