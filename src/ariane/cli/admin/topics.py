"""Subcommands about topics."""

import msgspec

from ariane.cli.admin.call import Call, UsageError
from ariane.cli.admin.java_text import exact_time, pretty_json, text, topic_config
from ariane.client.admin.topics import ORDER_NAMESPACE
from ariane.errors import ArianeError, BrokerRefused, ClientError
from ariane.message import DLQ_PREFIX, RETRY_PREFIX
from ariane.protocol.bodies import QueueKey, TopicConfig
from ariane.protocol.bodies.topics import UNIT, UNIT_SUB
from ariane.protocol.codes import RequestCode, ResponseCode

ROUTE = "%-45s %-32s %-50s %-10s %-11s %-5s"
LISTING = "%-20s  %-64s  %-64s"
STATUS = "%-32s  %-4s  %-20s  %-20s    %s"


async def update_topic(call: Call) -> None:
    """updateTopic."""
    flag = (UNIT if call.boolean("u") else 0) | (UNIT_SUB if call.boolean("s") else 0)
    config = TopicConfig(
        call.text("t"),
        call.number("r", 8),
        call.number("w", 8),
        call.number("p", 6),
        topic_sys_flag=flag,
        order=call.boolean("o"),
    )
    for address in await call.masters():
        await _create(call, config, address)
        if config.order and call.has("b"):
            conf = f"{await _broker_name(call, address)}:{config.write_queue_nums}"
            await call.admin.add_order(config.topic_name, conf)
            call.write(f"set broker orderConf. isOrder=true, orderConf=[{conf}]")
        call.line(f"create topic to {address} success.")
    if config.order and not call.has("b"):
        names = (await call.admin.cluster_info()).cluster_addr_table[call.cluster()]
        conf = ";".join(f"{name}:{config.write_queue_nums}" for name in names)
        await call.admin.set_order(config.topic_name, conf)
        call.write(f"set cluster orderConf. isOrder=true, orderConf=[{conf}]")
    call.line(topic_config(config))


async def _create(call: Call, config: TopicConfig, address: str) -> None:
    await call.admin.create_topic(
        config.topic_name,
        queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        perm=config.perm,
        order=config.order,
        sys_flag=config.topic_sys_flag,
        address=address,
    )


async def _broker_name(call: Call, address: str) -> str:
    for name, broker in (await call.admin.cluster_info()).broker_addr_table.items():
        if address in broker.broker_addrs.values():
            return name
    raise ClientError(f"no broker is registered at {address}: is the name server the right one?")


async def delete_topic(call: Call) -> None:
    """deleteTopic."""
    await delete(call, call.text("t"), call.text("c"))


async def delete(call: Call, topic: str, cluster: str) -> None:
    """Delete a topic in a cluster, and say so."""
    await call.admin.delete_topic(topic, cluster=cluster)
    call.line(f"delete topic [{topic}] from cluster [{cluster}] success.")
    call.line(f"delete topic [{topic}] from NameServer success.")


async def update_permission(call: Call) -> None:
    """updateTopicPerm."""
    topic, perm = call.text("t"), call.number("p")
    data = await call.admin.route(topic)
    first = data.queue_datas[0]
    config = TopicConfig(
        topic, first.read_queue_nums, first.write_queue_nums, perm, topic_sys_flag=first.topic_sys_flag
    )
    if not call.has("b"):
        for address in await call.masters():
            await _create(call, config, address)
            call.line(f"update topic perm from {first.perm} to {perm} in {address} success.")
        return
    address = call.text("b")
    name = next((one.broker_name for one in data.broker_datas if one.broker_addrs.get(0) == address), None)
    if name is None:
        raise ClientError(f"updateTopicPerm error broker not exit or broker is not master!: {address}")
    old = next((one.perm for one in data.queue_datas if one.broker_name == name), 0)
    if old == perm:
        call.line("new perm equals to the old one!")
        return
    await _create(call, config, address)
    call.line(f"update topic perm from {old} to {perm} in {address} success.")
    call.line(f"{topic_config(config)}.")


async def route(call: Call) -> None:
    """topicRoute."""
    data = await call.admin.route(call.text("t"))
    if not call.has("l"):
        shown = msgspec.to_builtins(data)
        for broker in shown["brokerDatas"]:
            del broker["enableActingMaster"]
        members = {key: value for key, value in sorted(shown.items()) if value is not None}
        call.line(pretty_json(_sorted(members)))
        return
    queues = {one.broker_name: one for one in data.queue_datas}
    call.row(ROUTE, "#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    for broker in sorted(data.broker_datas, key=lambda one: one.broker_name):
        row = queues[broker.broker_name]
        call.row(
            ROUTE, broker.cluster, broker.broker_name, text(broker.broker_addrs), row.read_queue_nums,
            row.write_queue_nums, row.perm,
        )  # fmt: skip
    call.line("-" * 158)
    read = sum(one.read_queue_nums for one in queues.values())
    write = sum(one.write_queue_nums for one in queues.values())
    call.row(ROUTE, "Total:", len(queues), "", read, write, "")


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in sorted(value.items())}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


async def status(call: Call) -> None:
    """topicStatus."""
    table = (await call.admin.topic_stats(call.text("t"))).offset_table
    if not table:
        raise ClientError("Not found the topic stats info")
    call.row(STATUS, "#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")
    for queue, offsets in sorted(table.items()):
        when = exact_time(offsets.last_update_timestamp) if offsets.last_update_timestamp > 0 else ""
        call.row(STATUS, queue.broker_name[:32], queue.queue_id, offsets.min_offset, offsets.max_offset, when)


async def clusters(call: Call) -> None:
    """topicClusterList."""
    for cluster in await call.admin.topic_clusters(call.text("t")):
        call.line(cluster)


async def listing(call: Call) -> None:
    """topicList."""
    topics = await call.admin.topics()
    if not call.has("c"):
        for topic in topics:
            call.line(topic)
        return
    info = await call.admin.cluster_info()
    call.row("%-20s  %-48s  %-48s", "#Cluster Name", "#Topic", "#Consumer Group")
    for topic in topics:
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        cluster, groups = "", [""]
        try:
            name = (await call.admin.route(topic)).broker_datas[0].broker_name
            cluster = next((one for one, names in info.cluster_addr_table.items() if name in names), "null")
            groups = await call.admin.topic_groups(topic) or [""]
        except (ArianeError, IndexError):
            pass  # a topic that is deleted meanwhile is listed without them
        for group in groups:
            call.row(LISTING, cluster[:20], topic[:64], group[:64])


async def order(call: Call) -> None:
    """updateOrderConf."""
    topic, method = call.text("t"), call.text("m")
    if method == "get":
        conf = await call.admin.kv(ORDER_NAMESPACE, topic)
        if conf is None:
            remark = f"No config item, Namespace: {ORDER_NAMESPACE} Key: {topic}"
            asked = RequestCode.GET_KV_CONFIG.name
            raise BrokerRefused(ResponseCode.QUERY_NOT_FOUND, remark, call.namesrv, f"{asked}: {remark}")
        call.line(f"get orderConf success. topic=[{topic}], orderConf=[{conf}] ")
    elif method == "put":
        conf = call.optional("v")
        if not conf:
            raise UsageError("please set orderConf with option -v.")
        await call.admin.set_order(topic, conf)
        call.line(f"update orderConf success. topic=[{topic}], orderConf=[{conf}]")
    elif method == "delete":
        await call.admin.delete_kv(ORDER_NAMESPACE, topic)
        call.line(f"delete orderConf success. topic=[{topic}]")
    else:
        raise UsageError(f"-m {method}: give put, get or delete")


async def allocate(call: Call) -> None:
    """allocateMQ."""
    result = await call.admin.allocation(call.text("t"), call.text("i").split(","))
    shown = {client: [_queue(QueueKey.of(queue)) for queue in queues] for client, queues in result.items()}
    call.line(msgspec.json.encode({"result": shown}).decode())


def _queue(key: QueueKey) -> dict[str, object]:
    return {"brokerName": key.broker_name, "queueId": key.queue_id, "topic": key.topic}
