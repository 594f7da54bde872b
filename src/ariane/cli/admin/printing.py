"""Subcommands that print the messages of queues."""

import time
from collections import Counter

from ariane.cli.admin.call import Call, UsageError
from ariane.cli.admin.java_text import message_text, parse_time, queue_text
from ariane.client.decoding import decode_message
from ariane.client.results import PullResult, PullStatus
from ariane.message import MAX_OFFSET, MIN_OFFSET, MessageQueue, ReceivedMessage
from ariane.protocol.units import decode_unit

RULE = "--------------------------------------------------------"


async def of_topic(call: Call) -> None:
    """printMsg."""
    charset, expression = call.optional("c") or "UTF-8", call.optional("s") or "*"
    for queue in await call.admin.queues(call.text("t")):
        offset, last = await _range(call, queue)
        call.line(f"minOffset={offset}, maxOffset={last}, {queue_text(queue)}")
        while offset < last:
            result = await call.admin.pull(queue, offset, 32, expression)
            offset = result.next_offset
            if result.status is PullStatus.FOUND:
                print_messages(call, queue, result, charset, call.boolean("d", True))
            elif result.status is PullStatus.NO_MATCH:
                call.line(f"{queue_text(queue)} no matched msg. status=NO_MATCHED_MSG, offset={offset}")
            else:
                call.line(f"{queue_text(queue)} print msg finished. status={result.status.value}, offset={offset}")
                break
        call.line(RULE)


async def of_queue(call: Call) -> None:
    """printMsgByQueue."""
    queue = MessageQueue(call.text("t"), call.text("a"), call.number("i"))
    await call.admin.route(queue.topic)
    charset, expression = call.optional("c") or "UTF-8", call.optional("s") or "*"
    offset, last = await _range(call, queue)
    tags: Counter[str] = Counter()
    while offset < last:
        result = await call.admin.pull(queue, offset, 32, expression)
        offset = result.next_offset
        if result.status is not PullStatus.FOUND:
            break
        tags.update(message.tags for message, _ in decoded(queue, result) if message.tags)
        if call.boolean("p"):
            print_messages(call, queue, result, charset, call.boolean("d"))
    if call.boolean("f"):
        for tag, count in tags.most_common():
            call.line(f"Tag: {tag:<30} Count: {count}")


async def _range(call: Call, queue: MessageQueue) -> tuple[int, int]:
    """The offsets between which to print: those of the times of -b and -e, or all."""
    first, last = await call.admin.min_offset(queue), await call.admin.max_offset(queue)
    if call.has("b"):
        first = await call.admin.search_offset(queue, parse_time(call.text("b")))
    if call.has("e"):
        last = await call.admin.search_offset(queue, parse_time(call.text("e")))
    return first, last


async def consume(call: Call) -> None:
    """consumeMessage."""
    topic, count = call.text("t"), call.number("c", 128)
    if count <= 0:
        raise UsageError("Please input a positive messageNumber!")
    if call.has("i") and not call.has("b"):
        raise UsageError("Please set the brokerName before queueId!")
    if call.has("o") and not call.has("i"):
        raise UsageError("Please set queueId before offset!")
    begin, end = (parse_time(call.text(letter)) if call.has(letter) else 0 for letter in "se")
    now = int(time.time() * 1000)
    if begin > now or end > now:
        raise UsageError(f"Please set the {'begin' if begin > now else 'end'}Timestamp before now!")
    if end and begin > end:
        raise UsageError("Please make sure that the beginTimestamp is less than or equal to the endTimestamp")
    queues = await call.admin.queues(topic)
    if call.has("i"):
        queues = [MessageQueue(topic, call.text("b"), call.number("i"))]
    left = count
    for queue in queues:
        if left <= 0:
            return
        first, last = await call.admin.min_offset(queue), await call.admin.max_offset(queue)
        first = await call.admin.search_offset(queue, begin) if begin else first
        last = await call.admin.search_offset(queue, end) if end else last
        if call.has("i"):
            if call.number("o") > last:
                call.line(f"{queue_text(queue)} no matched msg, offset={call.number('o')}")
                return
            first = max(first, call.number("o"))
        if last - first > left:
            whose = "" if call.has("i") else f" of the {queue.queue_id} queue"
            call.line(f"The {'oldler' if call.has('i') else 'older'} {left} message{whose} will be provided")
            last, left = first + left - 1, 0
        else:
            left -= last - first + 1
        await _consume(call, queue, first, last)


async def _consume(call: Call, queue: MessageQueue, offset: int, last: int) -> None:
    while offset <= last:
        result = await call.admin.pull(queue, offset, last - offset + 1)
        offset = result.next_offset
        if result.status is PullStatus.FOUND:
            call.line("Consume ok")
            print_messages(call, queue, result, "UTF-8", True)
        elif result.status is PullStatus.NO_MATCH:
            call.line(f"{queue_text(queue)} no matched msg. status=NO_MATCHED_MSG, offset={offset}")
        else:
            call.line(f"{queue_text(queue)} print msg finished. status={result.status.value}, offset={offset}")
            return


def decoded(queue: MessageQueue, result: PullResult) -> list[tuple[ReceivedMessage, int]]:
    """The messages of a pull, each with the checksum of its body as it is stored."""
    found: list[tuple[ReceivedMessage, int]] = []
    at = 0
    while at < len(result.body):
        unit = decode_unit(result.body, at)
        found.append((decode_message(unit, queue.broker_name), unit.body_crc))
        at += unit.size
    return found


def print_messages(call: Call, queue: MessageQueue, result: PullResult, charset: str, bodies: bool) -> None:
    """Print the messages of a pull as Java prints them."""
    offsets = {MIN_OFFSET: str(result.min_offset), MAX_OFFSET: str(result.max_offset)}
    for message, crc in decoded(queue, result):
        shown = message_text(message, crc, message.properties | offsets)
        body = message.body.decode(charset, errors="replace") if bodies else "NOT PRINT BODY"
        call.line(f"MSGID: {message.message_id} {shown} BODY: {body}")
