"""Subcommands about brokers and their stores."""

from collections.abc import Awaitable, Callable

from ariane.cli.admin.call import Call
from ariane.cli.admin.java_text import day_time, fields_of, pretty_json, text
from ariane.client.connect.routes import MASTER
from ariane.message import MessageQueue
from ariane.protocol.bodies import ConsumeQueueData

PROGRESS = "%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s"
RULE = "======================================"


async def update_config(call: Call) -> None:
    """updateBrokerConfig."""
    for address in await call.masters():
        await call.admin.update_broker(address, {call.text("k"): call.text("v")})
        call.line(f"update broker config success, {address}")


async def status(call: Call) -> None:
    """brokerStatus."""
    one = call.optional("b")
    for address in [one] if one else await call.admin.addresses(call.cluster()):
        for key, value in sorted((await call.admin.broker_stats(address)).items()):
            call.line(f"{key:<32}: {value}" if one else f"{address:<24} {key:<32}: {value}")


async def configs(call: Call) -> None:
    """getBrokerConfig."""
    if call.has("b"):
        await _config(call, call.text("b"), f"============{call.text('b')}============")
        return
    info = await call.admin.cluster_info()
    for name in info.cluster_addr_table.get(call.cluster(), []):
        addresses = info.broker_addr_table[name].broker_addrs
        master = text(addresses.get(MASTER))
        for broker_id, address in sorted(addresses.items()):
            kind = f"Master: {master}" if broker_id == MASTER else f"My Master: {master}=====Slave: {address}"
            await _config(call, address, f"============{kind}============")


async def _config(call: Call, address: str, title: str) -> None:
    call.line(title)
    for key, value in (await call.admin.broker_options(address)).items():
        call.line(f"{key:<50}=  {value}")
    call.line()


async def consume_stats(call: Call) -> None:
    """brokerConsumeStats."""
    timeout, least = call.number("t", 50_000) / 1000, call.number("l")
    found = await call.admin.broker_progress(call.text("b"), order=call.boolean("o"), timeout=timeout)
    head = ("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime")
    call.row(PROGRESS, *head)
    for group, tables in found.groups.items():
        for table in tables:
            for queue, offsets in sorted(table.offset_table.items()):
                diff = offsets.broker_offset - offsets.consumer_offset
                if diff < least or offsets.last_timestamp <= 0:
                    continue
                call.row(
                    PROGRESS, queue.topic[:64], group, queue.broker_name[:32], queue.queue_id, offsets.broker_offset,
                    offsets.consumer_offset, diff, day_time(offsets.last_timestamp),
                )  # fmt: skip
    call.line(f"\nDiff Total: {found.total}")


async def clean_queues(call: Call) -> None:
    """cleanExpiredCQ."""
    await _clean(call, call.admin.clean_expired_queues)


async def clean_topics(call: Call) -> None:
    """cleanUnusedTopic."""
    await _clean(call, call.admin.clean_unused_topics)


async def delete_commitlog(call: Call) -> None:
    """deleteExpiredCommitLog."""
    await _clean(call, call.admin.delete_expired_commitlog)


async def _clean(call: Call, clean: Callable[[str], Awaitable[None]]) -> None:
    """Clean the broker of -b, the cluster of -c, or all clusters."""
    addresses = [call.text("b")] if call.has("b") else await call.admin.masters(call.optional("c"))
    for address in addresses:
        await clean(address)
    call.line("success" if addresses else "false")


async def consumequeue(call: Call) -> None:
    """queryCq."""
    topic, index = call.text("t"), call.number("i")
    address = call.optional("b") or (await call.admin.route(topic)).broker_datas[0].broker_addrs[MASTER]
    queue = MessageQueue(topic, "", call.number("q"))
    found = await call.admin.consumequeue(address, queue, index, count=call.number("c", 10), group=call.optional("g"))
    if found.subscription_data is not None:
        call.line(f"Subscription data: \n{pretty_json(found.subscription_data)}\n{RULE}")
    if found.filter_data is not None:
        call.line(f"Filter data: \n{found.filter_data}\n{RULE}")
    call.line(f"Queue data: \nmax: {found.max_queue_index}, min: {found.min_queue_index}\n{RULE}")
    for number, entry in enumerate(found.queue_data, index):
        call.line(f"idx: {number}\n{_entry(entry)}\n{RULE}")


def _entry(entry: ConsumeQueueData) -> str:
    quoted = ("extendDataJson", "bitMap", "msg")
    shown = (f"{k}='{text(v)}'" if k in quoted else f"{k}={text(v)}" for k, v in fields_of(entry).items())
    return "ConsumeQueueData{" + ", ".join(shown) + "}"
