"""Subcommands about offsets."""

from ariane.cli.admin.call import Call
from ariane.cli.admin.groups import stats_of
from ariane.cli.admin.java_text import parse_time, text
from ariane.client.admin.offsets import END
from ariane.errors import BrokerRefused
from ariane.protocol.codes import ResponseCode

MOVED = "%-40s  %-40s  %-40s"
RESET = "%-20s  %-20s  %-20s  %-20s  %-20s  %-20s"


async def clone(call: Call) -> None:
    """cloneGroupOffset: the offsets of all topics of the group, as mqadmin does it; -t only finds brokers."""
    source, target, topic = call.text("s"), call.text("d"), call.text("t")
    await call.admin.route(topic)
    for queue, offsets in (await stats_of(call, source)).offset_table.items():
        if offsets.consumer_offset >= 0:
            await call.admin.commit(target, queue, offsets.consumer_offset)
    call.line(f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]")


async def reset(call: Call) -> None:
    """resetOffsetByTime."""
    given = call.text("s")
    await _move(call, END if given == "now" else parse_time(given), given)


async def skip(call: Call) -> None:
    """skipAccumulatedMessage."""
    await _move(call, END, None)


async def _move(call: Call, timestamp: int, given: str | None) -> None:
    group, topic, force = call.text("g"), call.text("t"), call.boolean("f", True)
    told = f"topic[{topic}], force[{text(force)}], timestamp(string)[{given}], timestamp(long)[{timestamp}]"
    try:
        moved = await call.admin.reset_offset(group, topic, timestamp, force=force)
    except BrokerRefused as error:
        if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        await _move_offline(call, timestamp, None if given is None else told)
        return
    if given is not None:
        call.line(f"rollback consumer offset by specified group[{group}], {told}")
    call.row(MOVED, "#brokerName", "#queueId", "#offset")
    for queue, offset in sorted(moved.items()):
        call.row(MOVED, queue.broker_name[:32], queue.queue_id, offset)


async def _move_offline(call: Call, timestamp: int, told: str | None) -> None:
    group = call.text("g")
    resets = await call.admin.reset_offline(group, call.text("t"), timestamp, force=call.boolean("f", True))
    if told is not None:
        call.line(f"rollback consumer offset by specified consumerGroup[{group}], {told}")
    head = ("#brokerName", "#queueId", "#brokerOffset", "#consumerOffset", "#timestampOffset", "#rollbackOffset")
    call.row(RESET, *head)
    for one in resets:
        row = (one.queue.broker_name[:32], one.queue.queue_id, one.broker_offset, one.before, one.found, one.after)
        call.row(RESET, *row)
