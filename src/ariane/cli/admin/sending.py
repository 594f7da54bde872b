"""Subcommands that send messages."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from ariane.cli.admin.call import Call, UsageError
from ariane.cli.admin.java_text import bean, queue_text
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.producer import Producer
from ariane.client.results import SendResult
from ariane.errors import ArianeError
from ariane.message import Message, MessageQueue

SENT = "%-32s  %-4s  %-20s %s"
CLUSTER = "%-24s  %-24s  %-4s  %-8s  %-8s"
CLUSTER_ROW = "%-24s  %-24s  %-8s  %-16s  %-16s"
CHINA = timedelta(hours=8)  # mqadmin's log form has that zone wherever it runs


@asynccontextmanager
async def _producer(call: Call, group: str, *, trace: bool = False) -> AsyncIterator[Producer]:
    options = ProducerOptions.of(call.admin.options, {"trace": trace})
    async with Producer(group, options=options) as producer:
        yield producer


def send_result(result: SendResult) -> str:
    """`SendResult.toString`."""
    return bean(
        "SendResult",
        {
            "sendStatus": result.status.name,
            "msgId": result.message_id,
            "offsetMsgId": result.offset_id,
            "messageQueue": queue_text(result.queue),
            "queueOffset": result.queue_offset,
        },
    )


async def send(call: Call) -> None:
    """sendMessage."""
    topic = call.text("t")
    if call.has("i") and not call.has("b"):
        raise UsageError("Broker name must be set if the queue is chosen!")
    queue = MessageQueue(topic, call.text("b"), call.number("i")) if call.has("b") and call.has("i") else None
    message = Message(topic, call.text("p").encode(), tags=call.optional("c"), keys=(call.optional("k") or "").split())
    async with _producer(call, "ariane-admin", trace=call.boolean("m")) as producer:
        result = await producer.send(message, queue=queue)
    call.row(SENT, "#Broker Name", "#QID", "#Send Result", "#MsgId")
    call.row(SENT, result.queue.broker_name, result.queue.queue_id, result.status.name, result.message_id)


async def status(call: Call) -> None:
    """sendMsgStatus."""
    topic, size, count = call.text("b"), call.number("s", 128), call.number("c", 50)

    def body(least: int) -> bytes:
        return b"hello jodie" * -(-least // 11)

    async with _producer(call, "PID_SMSC") as producer:
        await producer.send(Message(topic, body(16)))
        for _ in range(count):
            began = time.monotonic()
            result = await producer.send(Message(topic, body(size)))
            call.line(f"rt={_since(began)}ms, SendResult={send_result(result)}")


async def round_trips(call: Call) -> None:
    """checkMsgSendRT."""
    topic, amount, size = call.text("t"), call.number("a", 100), call.number("s", 128)
    call.row(SENT, "#Broker Name", "#QID", "#Send Result", "#RT")
    total = 0
    async with _producer(call, "ariane-admin") as producer:
        queues = await producer.queues(topic)
        for number in range(amount):
            queue = queues[number % len(queues)]
            began = time.monotonic()
            try:
                await producer.send(Message(topic, b"a" * size), queue=queue)
                success = "true"
            except ArianeError:
                success = "false"
            taken = _since(began)
            total += taken if number else 0  # the first one opens the connection
            call.row(SENT, queue.broker_name, queue.queue_id, success, taken)
    call.line(f"Avg RT: {_mean(total, amount)}")


async def cluster_round_trips(call: Call) -> None:
    """clusterRT."""
    amount, size, interval = call.number("a", 100), call.number("s", 128), call.number("i", 10)
    as_log, room = call.boolean("p"), call.optional("m") or "noname"
    if not as_log:
        call.row(CLUSTER, "#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount")
    async with _producer(call, "ariane-admin") as producer:
        while True:
            table = (await call.admin.cluster_info()).cluster_addr_table
            for cluster in [call.text("c")] if call.has("c") else sorted(table):
                if cluster not in table:
                    call.line(f"cluster [{cluster}] not exist")
                    return
                for broker in sorted(table[cluster]):
                    mean, sent = await _measure(producer, broker, amount, size)
                    if as_log:
                        moment = datetime.now(UTC) + CHINA
                        whole = "0" if mean == "NaN" else f"{float(mean):.0f}"
                        call.line(f"{moment:%Y-%m-%d %H:%M:%S}|{room}|{cluster}|{broker}|{whole}")
                    else:
                        call.row(CLUSTER_ROW, cluster, broker, mean, sent, amount - sent)
            await asyncio.sleep(interval)


async def _measure(producer: Producer, topic: str, amount: int, size: int) -> tuple[str, int]:
    """Send to the topic that bears a broker's name; the mean time, and how many were stored."""
    total = sent = 0
    for number in range(amount):
        began = time.monotonic()
        try:
            await producer.send(Message(topic, b"a" * size))
            sent += 1
        except ArianeError:
            pass  # counted as failed
        total += _since(began) if number else 0
    return _mean(total, amount), sent


def _since(began: float) -> int:
    return int((time.monotonic() - began) * 1000)


def _mean(total: int, amount: int) -> str:
    return f"{total / (amount - 1):.2f}" if amount > 1 else "NaN"
