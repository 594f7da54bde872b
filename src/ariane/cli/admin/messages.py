"""Subcommands that find messages."""

import os
import re
from pathlib import Path

from ariane.cli.admin.call import Call
from ariane.cli.admin.groups import direct_result
from ariane.cli.admin.java_text import bean, day_time, exact_time, text
from ariane.cli.admin.sending import send_result
from ariane.client.admin.messages import MessageTrack, TraceRecord
from ariane.client.results import PullStatus
from ariane.errors import ArianeError, ClientError, ResponseError
from ariane.message import KEYS, MAX_OFFSET, MIN_OFFSET, TRACE_TOPIC, MessageQueue, ReceivedMessage
from ariane.protocol.codes import ResponseCode

BODIES = Path("/tmp/rocketmq/msgbodys")  # where mqadmin puts them, and scripts look
TRACE = "%-10s %-20s %-20s %-20s %-10s %-10s"


async def by_id(call: Call) -> None:
    """queryMsgById."""
    for offset_id in [word.strip() for word in call.text("i").split(",") if word.strip()]:
        message = await call.admin.view_message(offset_id)
        if call.has("g") and call.has("d"):
            await _consume(call, message)
        elif call.has("s"):
            if call.boolean("s"):
                sent = await call.admin.resend(message)
                call.line(f"prepare resend msg. originalMsgId={offset_id}{send_result(sent)}")
        else:
            await show(call, message, message.properties)


async def by_key(call: Call) -> None:
    """queryMsgByKey."""
    found = await call.admin.query_messages(call.text("t"), call.text("k"))
    _require(bool(found), f"topic {call.text('t')} has no message with the key {call.text('k')}")
    call.row("%-50s %4s %40s", "#Message ID", "#QID", "#Offset")
    for message in sorted(found, key=lambda one: one.store_time):
        call.row("%-50s %4s %40s", message.message_id, message.queue.queue_id, message.queue_offset)


def _require(found: bool, text: str) -> None:
    """Fail as mqadmin does when an index has nothing."""
    if not found:
        raise ResponseError(ResponseCode.NO_MESSAGE, text)


async def by_unique_key(call: Call) -> None:
    """queryMsgByUniqueKey."""
    found = await call.admin.find_messages(call.text("t"), call.text("i"))
    if call.has("g") and call.has("d"):
        if not found:
            raise ClientError(f"topic {call.text('t')} has no message with the id {call.text('i')}")
        await _consume(call, found[0])
        return
    for number, message in enumerate(found if call.has("a") else found[:1]):
        await show(call, message, message.properties, number, with_id=False)


async def by_offset(call: Call) -> None:
    """queryMsgByOffset."""
    queue = MessageQueue(call.text("t"), call.text("b"), call.number("i"))
    await call.admin.route(queue.topic)
    result = await call.admin.pull(queue, call.number("o"), 1)
    if result.status is PullStatus.FOUND:
        [message] = (await call.admin.read(queue, call.number("o"), 1))[0]
        more = {MIN_OFFSET: str(result.min_offset), MAX_OFFSET: str(result.max_offset)}
        await show(call, message, message.properties | more)


async def _consume(call: Call, message: ReceivedMessage) -> None:
    result = await call.admin.consume_directly(
        call.text("g"), call.text("d"), message.offset_id, address=message.store_host
    )
    call.write(direct_result(result))


async def show(
    call: Call, message: ReceivedMessage, properties: dict[str, str], number: int = 0, *, with_id: bool = True
) -> None:
    """Print a message, keep its body in a file, and say which groups have consumed it."""
    keys = text(message.properties.get(KEYS))
    rows: list[tuple[str, object]] = [
        ("Topic:", message.topic),
        ("Tags:", f"[{text(message.tags)}]"),
        ("Keys:", f"[{keys}]"),
        ("Queue ID:", message.queue.queue_id),
        ("Queue Offset:", message.queue_offset),
        ("CommitLog Offset:", message.physical_offset),
        ("Reconsume Times:", message.reconsume_times),
        ("Born Timestamp:", exact_time(message.born_time)),
        ("Store Timestamp:", exact_time(message.store_time)),
        ("Born Host:", message.born_host),
        ("Store Host:", message.store_host),
        ("System Flag:", message.sys_flag),
        ("Properties:", text(properties)),
        ("Message Body Path:", keep_body(message, number)),
    ]
    if with_id:
        rows.insert(0, ("OffsetID:", message.offset_id))
    for name, value in rows:
        call.row("%-20s %s", name, value)
    try:
        tracks = await call.admin.track(message)
    except ArianeError as error:
        call.line(f"\n\nWARN: consumers are not known: {error}")
        return
    call.line("\n\n" + ("".join(map(track_text, tracks)) or "WARN: No Consumer"))


def track_text(track: MessageTrack) -> str:
    """`MessageTrack.toString`."""
    why = f"CODE:{track.code} DESC:{track.error}" if track.code is not None else track.error
    return bean("MessageTrack", {"consumerGroup": track.group, "trackType": track.state.name, "exceptionDesc": why})


def keep_body(message: ReceivedMessage, number: int) -> str:
    """Write a body to its file. The id comes from the producer, so it must not choose the folder."""
    BODIES.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^0-9A-Za-z_.-]", "_", message.message_id)
    path = BODIES / (f"{name}_{number}" if number else name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(message.body)
    return str(path)


async def trace(call: Call) -> None:
    """queryMsgTraceById."""
    topic = call.optional("t") or TRACE_TOPIC
    records = await call.admin.message_trace(call.text("i"), trace_topic=topic)
    _require(bool(records), f"{topic} has no trace of {call.text('i')}: do its clients trace?")
    consumed: dict[str, list[TraceRecord]] = {}
    for record in records:
        if record.kind == "Pub":
            call.row(TRACE, "#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status")
            _trace_row(call, "Pub", record)
            call.line()
        else:
            consumed.setdefault(record.group, []).append(record)
    for group in consumed.values():
        call.row(TRACE, "#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status")
        for record in group:
            _trace_row(call, "Sub", record)
        call.line()


def _trace_row(call: Call, kind: str, record: TraceRecord) -> None:
    status = "success" if record.success else "failed"
    call.row(TRACE, kind, record.group, record.client_host, day_time(record.time), f"{record.cost_ms}ms", status)
