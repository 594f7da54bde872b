"""Subcommands that ask consumers about their state."""

import asyncio
import time
from pathlib import Path

from ariane.cli.admin.call import Call
from ariane.cli.admin.groups import online
from ariane.cli.admin.java_text import bean, fields_of, packed_time, queue_text, text
from ariane.client.admin.lag import variants
from ariane.errors import ArianeError
from ariane.protocol.bodies import ConsumerRunningInfo, ProcessQueueInfo
from ariane.protocol.versions import version_name

CLIENT = "%-10s %-40s %-20s %s"
QUEUE = "%-64s  %-32s  %-4s  %-20s"
RATES = "%-64s  %14s %14s %14s %14s %18s %25s"
ROUND = 60.0  # seconds between two rounds of monitoring


async def status(call: Call) -> None:
    """consumerStatus."""
    group, stack = call.text("g"), call.has("s")
    found = await online(call, group)
    if call.has("i"):
        info = await call.admin.consumer_running_info(group, call.text("i"), stack=stack, address=call.optional("b"))
        call.write(running_text(info))
        return
    folder = Path(str(int(time.time() * 1000)))
    call.row(CLIENT, "#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")
    infos: dict[str, ConsumerRunningInfo] = {}
    for one in found.connection_set:
        try:
            info = await call.admin.consumer_running_info(group, one.client_id, stack=stack, address=call.optional("b"))
        except ArianeError as error:
            call.line(f"{one.client_id}: {error}")
            continue
        infos[one.client_id] = info
        file = folder / one.client_id.replace("/", "_")
        await asyncio.to_thread(_keep, file, running_text(info))
        call.row(CLIENT, len(infos), one.client_id, version_name(one.version), file)
    if not infos:
        return
    if len(variants(infos)) > 1:
        call.line("\n\nWARN: Different subscription in the same group of consumer!!!")
        for variant in variants(infos):
            call.line(f"{', '.join(variant.clients)}: {text(variant.expressions)}")
        return
    call.line("\n\nSame subscription in the same group of consumer")
    call.line("\n\nRebalance OK")
    now = int(time.time() * 1000)
    for client, info in sorted(infos.items()):
        call.write(blocked_text(client, info, now))


def _keep(file: Path, content: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(content, encoding="utf-8")


def blocked_text(client: str, info: ConsumerRunningInfo, now: int) -> str:
    """Which queues a client does not get on with; empty when all is well."""
    if info.properties.get("PROP_CONSUME_TYPE") != "CONSUME_PASSIVELY":
        return ""
    lines: list[str] = []
    orderly = info.properties.get("PROP_CONSUMEORDERLY", "").lower() == "true"
    for queue, state in sorted(info.mq_table.items()):
        who = f"{client} {queue_text(queue)}"
        idle = now - state.last_consume_timestamp
        if orderly and not state.locked:
            lines.append(f"{who} can't lock for a while, {now - state.last_lock_timestamp}ms")
        elif orderly and state.dropped and state.try_unlock_times > 0:
            lines.append(f"{who} unlock {state.try_unlock_times} times, still failed")
        elif not orderly and idle > 60_000 and state.cached_msg_count > 0:
            lines.append(f"{who} can't consume for a while, maybe blocked, {idle}ms")
    return "".join(f"{line}\n" for line in lines)


def running_text(info: ConsumerRunningInfo) -> str:
    """`ConsumerRunningInfo.formatString`."""
    lines = ["#Consumer Properties#"]
    lines += [f"{key:<40}: {value}" for key, value in info.properties.items()]
    lines += ["", "", "#Consumer Subscription#"]
    for number, one in enumerate(sorted(info.subscription_set, key=lambda wanted: wanted.topic), 1):
        filtered = text(one.class_filter_mode)
        lines.append(f"{number:03d} Topic: {one.topic:<40} ClassFilter: {filtered:<8} SubExpression: {one.sub_string}")
    lines += ["", "", "#Consumer Offset#", QUEUE % ("#Topic", "#Broker Name", "#QID", "#Consumer Offset")]
    for queue, state in sorted(info.mq_table.items()):
        row = (queue.topic, queue.broker_name, queue.queue_id, state.commit_offset)
        lines.append("%-32s  %-32s  %-4d  %-20d" % row)  # noqa: UP031 (the form of mqadmin's columns)
    lines += ["", "", "#Consumer MQ Detail#", QUEUE % ("#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo")]
    for queue, state in sorted(info.mq_table.items()):
        lines.append(f"{queue.topic:<64}  {queue.broker_name:<32}  {queue.queue_id:<4}  {_state_text(state)}")
    head = ("#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS")
    lines += ["", "", "#Consumer RT&TPS#", RATES % (*head, "#ConsumeFailedMsgsInHour")]
    for topic, rates in sorted(info.status_table.items()):
        lines.append(
            f"{topic:<32}  {rates.pull_rt:14.2f} {rates.pull_tps:14.2f} {rates.consume_rt:14.2f} "
            f"{rates.consume_ok_tps:14.2f} {rates.consume_failed_tps:18.2f} {rates.consume_failed_msgs:25d}"
        )
    if info.jstack is not None:
        lines += ["", "", "#Consumer jstack#", info.jstack.rstrip("\n")]
    return "\n".join(lines) + "\n"


def _state_text(state: ProcessQueueInfo) -> str:
    times = ("lastLockTimestamp", "lastPullTimestamp", "lastConsumeTimestamp")
    shown = {name: packed_time(value) if name in times else value for name, value in fields_of(state).items()}
    return bean("ProcessQueueInfo", shown)


async def monitor(call: Call) -> None:
    """startMonitoring: each minute, the groups that are behind, blocked, in conflict or without consumers."""
    while True:
        call.line("[MONITOR] beginRound")
        for lag in await call.admin.group_lags():
            if lag.lag > 0:
                call.line(f"[MONITOR] {lag.group}: {lag.lag} messages wait{'' if lag.online else ', no consumer'}")
            if not lag.online:
                continue
            try:
                found = await call.admin.group_lag(lag.group)
            except ArianeError as error:
                call.line(f"[MONITOR] {lag.group}: {error}")
                continue
            if found.in_conflict:
                call.line(f"[MONITOR] [NOTIFY] {lag.group}: its consumers subscribe differently:")
                for variant in found.variants:
                    call.line(f"[MONITOR] [NOTIFY]   {', '.join(variant.clients)}: {text(variant.expressions)}")
            for queue in found.blocked:
                call.line(f"[MONITOR] [NOTIFY] {lag.group}: {queue_text(queue.queue)}: {queue.blocked}")
        call.line("[MONITOR] endRound")
        await asyncio.sleep(ROUND)
