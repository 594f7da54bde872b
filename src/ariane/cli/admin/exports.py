"""Subcommands that write what a cluster is to a file."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec

from ariane.cli.admin.call import Call, UsageError
from ariane.cli.admin.clusters import last_day
from ariane.cli.admin.java_text import pretty_json
from ariane.client.admin.brokers import first_rate
from ariane.client.admin.groups import is_system_group
from ariane.client.connect.routes import MASTER
from ariane.errors import ArianeError, ClientError
from ariane.message import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC
from ariane.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from ariane.protocol.codes import VERSION_4_9_7
from ariane.protocol.versions import version_name

DEFAULT_FOLDER = "/tmp/rocketmq/export"
MAIN_OPTIONS = (
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime", "filterServerNums",
    "flushDiskType", "maxMessageSize", "messageDelayLevel", "msgTraceTopicName", "slaveReadEnable", "traceOn",
    "traceTopicEnable", "useTLS", "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
)  # fmt: skip


async def _write(call: Call, name: str, content: object) -> None:
    path = Path(call.optional("f") or DEFAULT_FOLDER) / name

    def write() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pretty_json(content), encoding="utf-8")

    await asyncio.to_thread(write)
    call.line(f"export {path} success")


async def metadata(call: Call) -> None:
    """exportMetadata."""
    special = call.has("s")
    if call.has("b"):
        address = call.text("b")
        if call.has("t"):
            table = await call.admin.topic_configs(address)
            shown = {"dataVersion": table.data_version, "topicConfigTable": await _topics(call, address, special)}
            await _write(call, "topic.json", _plain(shown))
        elif call.has("g"):
            groups = await call.admin.groups(address)
            shown = {"dataVersion": groups.data_version, "subscriptionGroupTable": await _groups(call, address)}
            await _write(call, "subscriptionGroup.json", _plain(shown))
        else:
            raise UsageError("exportMetadata -b ADDRESS: give -t for topics or -g for groups")
        return
    topics: dict[str, TopicConfig] = {}
    groups_of: dict[str, SubscriptionGroupConfig] = {}
    for address in await call.masters():
        for name, topic in (await _topics(call, address, special)).items():
            if name in topics:
                topic.write_queue_nums += topics[name].write_queue_nums
                topic.read_queue_nums += topics[name].read_queue_nums
            topics[name] = topic
        for name, group in (await _groups(call, address)).items():
            if name in groups_of:
                group.retry_queue_nums += groups_of[name].retry_queue_nums
            groups_of[name] = group
    content: dict[str, Any] = {"exportTime": int(time.time() * 1000)}
    if not call.has("t"):
        content["subscriptionGroupTable"] = groups_of
    if not call.has("g") or call.has("t"):
        content["topicConfigTable"] = topics
    file = "topic.json" if call.has("t") else "subscriptionGroup.json" if call.has("g") else "metadata.json"
    await _write(call, file, _plain(content))


async def _topics(call: Call, address: str, special: bool) -> dict[str, TopicConfig]:
    """The topics of users; with `special` their retry and dead-letter topics too."""
    system = set(await call.admin.system_topics(address))
    table = (await call.admin.topic_configs(address)).topic_config_table
    return {
        name: config
        for name, config in table.items()
        if name not in system and (special or not name.startswith((RETRY_PREFIX, DLQ_PREFIX)))
    }


async def _groups(call: Call, address: str) -> dict[str, SubscriptionGroupConfig]:
    table = (await call.admin.groups(address)).subscription_group_table
    return {name: config for name, config in table.items() if not is_system_group(name)}


def _plain(value: object) -> Any:
    """Builtins, with sorted members; those that are not known are left out."""
    return _known(msgspec.to_builtins(value, order="sorted"))


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items() if item is not None}
    return value


async def _cluster_masters(call: Call) -> dict[str, dict[int, str]]:
    info = await call.admin.cluster_info()
    names = info.cluster_addr_table.get(call.text("c"))
    if names is None:
        raise ClientError(f"there is no cluster {call.text('c')}")
    return {name: info.broker_addr_table[name].broker_addrs for name in sorted(names)}


async def configs(call: Call) -> None:
    """exportConfigs."""
    brokers = await _cluster_masters(call)
    found: dict[str, dict[str, str]] = {}
    for addresses in brokers.values():
        if MASTER in addresses:
            options = await call.admin.broker_options(addresses[MASTER])
            found[options["brokerName"]] = {name: options[name] for name in MAIN_OPTIONS if name in options}
    scale = {
        "namesrvSize": len(await call.admin.name_servers()),
        "masterBrokerSize": sum(MASTER in addresses for addresses in brokers.values()),
        "slaveBrokerSize": sum(broker_id != MASTER for addresses in brokers.values() for broker_id in addresses),
    }
    await _write(call, "configs.json", _plain({"brokerConfigs": found, "clusterScale": scale}))


async def metrics(call: Call) -> None:
    """exportMetrics."""
    report: dict[str, Any] = {}
    tps_names = ("normalInTps", "normalOutTps", "transInTps", "scheduleInTps")
    day_names = ("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum")
    total_tps = {f"total{name[0].upper()}{name[1:]}": 0.0 for name in tps_names}
    total_day = dict.fromkeys(day_names, 0)
    for name, addresses in (await _cluster_masters(call)).items():
        if MASTER not in addresses:
            continue
        report[name] = one = await _report(call, addresses[MASTER])
        for figure in tps_names:
            total_tps[f"total{figure[0].upper()}{figure[1:]}"] += one["runtimeQuota"]["tps"][figure]
        for figure in day_names:
            total_day[figure] += one["runtimeQuota"]["oneDayNum"][figure]
    total = {"totalTps": total_tps, "totalOneDayNum": total_day}
    await _write(call, "metrics.json", _plain({"evaluateReport": report, "totalData": total}))


async def _report(call: Call, address: str) -> dict[str, Any]:
    stats, options = await call.admin.broker_stats(address), await call.admin.broker_options(address)
    groups = await _groups(call, address)
    trans_tps, trans_day = await _counted(call, address, HALF_TOPIC)
    schedule_tps, schedule_day = await _counted(call, address, SCHEDULE_TOPIC)

    def yesterday(kind: str) -> int:
        return int(stats[f"msg{kind}TotalTodayMorning"]) - int(stats[f"msg{kind}TotalYesterdayMorning"])

    clients: set[str] = set()
    for group in groups:
        try:
            for one in (await call.admin.consumer_connections(group)).connection_set:
                clients.add(f"{one.language}%{version_name(one.version)}")
        except ArianeError:
            continue  # offline
    return {
        "runtimeEnv": {
            "cpuNum": options.get("clientCallbackExecutorThreads"),
            "totalMemKBytes": stats.get("totalMemKBytes"),
        },
        "runtimeQuota": {
            "diskRatio": {
                "commitLogDiskRatio": stats.get("commitLogDiskRatio"),
                "consumeQueueDiskRatio": stats.get("consumeQueueDiskRatio"),
            },
            "tps": {
                "normalInTps": first_rate(stats["putTps"]),
                "normalOutTps": first_rate(stats["getTransferedTps"]),
                "transInTps": trans_tps,
                "scheduleInTps": schedule_tps,
            },
            "oneDayNum": {
                "normalOneDayInNum": yesterday("Put"),
                "normalOneDayOutNum": yesterday("Get"),
                "transOneDayInNum": trans_day,
                "scheduleOneDayInNum": schedule_day,
            },
            "messageAverageSize": stats.get("putMessageAverageSize"),
            "topicSize": len(await _topics(call, address, False)),
            "groupSize": len(groups),
        },
        "runtimeVersion": {"rocketmqVersion": version_name(VERSION_4_9_7), "clientInfo": sorted(clients)},
    }


async def _counted(call: Call, address: str, topic: str) -> tuple[float, int]:
    try:
        counter = await call.admin.counter(address, "TOPIC_PUT_NUMS", topic)
    except ArianeError:
        return 0.0, 0
    return counter.stats_minute.tps, last_day(counter)
