"""Brokers register, change, expire and leave."""

import asyncio

import pytest

from ariane.env import SystemClock
from ariane.protocol.bodies import ClusterInfo, DataVersion, TopicConfig, TopicRouteData
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import BINARY
from ariane.protocol.headers import (
    GetRouteInfoRequest,
    QueryDataVersionRequest,
    UnregisterBrokerRequest,
)
from ariane.remoting import Client
from tests.namesrv.conftest import Asker, registration
from tests.remoting.conftest import until


async def route(asker: Asker, topic: str) -> TopicRouteData | None:
    answer = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic))
    return None if answer.code == ResponseCode.TOPIC_NOT_EXIST else TopicRouteData.decode(answer.body)


async def addresses(asker: Asker, name: str) -> dict[int, str]:
    info = ClusterInfo.decode((await asker.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
    return info.broker_addr_table[name].broker_addrs if name in info.broker_addr_table else {}


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_registered_topic_has_a_route(start, connect, compressed):
    asker = connect(await start())
    answer = await asker.register("a", {"T": TopicConfig("T", 8, 4, 6)}, compressed=compressed)
    assert (answer.code, answer.fields, answer.body) == (0, {}, b"")
    found = await route(asker, "T")
    assert found is not None
    [queue] = found.queue_datas
    assert (queue.broker_name, queue.read_queue_nums, queue.write_queue_nums, queue.perm) == ("a", 8, 4, 6)
    [broker] = found.broker_datas
    assert (broker.cluster, broker.broker_addrs) == ("DefaultCluster", {0: "127.0.0.1:10911"})


async def test_a_damaged_registration_is_refused(start, connect):
    asker = connect(await start())
    answer = await asker.register("a", {"T": 4}, crc=12345)
    assert (answer.code, answer.remark) == (1, "crc32 not match")
    assert await route(asker, "T") is None


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_registration_that_cannot_be_read_is_refused(start, connect, compressed):
    asker = connect(await start())
    request = registration("a", {}, crc=0, compressed=compressed)
    request.body = b"\x00garbage"
    answer = await asker.client.request(asker.address, request, 30)
    assert answer.code == 1
    assert await addresses(asker, "a") == {}


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "x" * 256])
async def test_a_broker_must_have_a_name(start, connect, name):
    asker = connect(await start())
    assert (await asker.register(name, {"T": 4})).code == 1
    assert await route(asker, "T") is None


async def test_a_registration_without_a_body_is_a_broker_without_topics(start, connect):
    asker = connect(await start())
    request = registration("a", {}, crc=0)
    request.body = b""
    assert (await asker.client.request(asker.address, request, 30)).code == 0
    assert await addresses(asker, "a") == {0: "127.0.0.1:10911"}


async def test_brokers_before_3_0_11_register_topics_alone(start, connect):
    asker = connect(await start())
    request = registration("a", {"T": 4}, crc=0)
    request.body = (
        b'{"dataVersion":{"counter":1,"timestamp":2},"topicConfigTable":{"Old":{"perm":6,"readQueueNums":3,'
        b'"topicName":"Old","writeQueueNums":3}}}'
    )
    request.version = 30
    assert (await asker.client.request(asker.address, request, 30)).code == 0
    assert await route(asker, "Old") is not None


async def test_topics_are_taken_over_only_when_the_version_changed(start, connect):
    asker = connect(await start())
    await asker.register("a", {"T": 4}, version=1)
    await asker.register("a", {"T": 8}, version=1)
    found = await route(asker, "T")
    assert found is not None
    assert found.queue_datas[0].read_queue_nums == 4
    await asker.register("a", {"T": 8}, version=2)
    found = await route(asker, "T")
    assert found is not None
    assert found.queue_datas[0].read_queue_nums == 8


async def test_the_topics_of_a_slave_do_not_count_and_it_learns_where_its_master_is(start, connect):
    asker = connect(await start())
    alone = await asker.register("a", {"S": 4}, broker_id=1)
    assert alone.fields == {}
    await asker.register("a", {"T": 4}, broker_id=0)
    second = await asker.register("a", {"S": 4}, broker_id=1)
    assert second.fields == {"haServerAddr": "127.0.0.1:10912", "masterAddr": "127.0.0.1:10911"}
    assert await route(asker, "S") is None
    assert await addresses(asker, "a") == {0: "127.0.0.1:10911", 1: "127.0.0.1:10912"}


async def test_a_slave_that_becomes_master_has_one_place(start, connect):
    asker = connect(await start())
    await asker.register("a", {"T": 4}, broker_id=1, address="127.0.0.1:1")
    await asker.register("a", {"T": 4}, broker_id=0, address="127.0.0.1:1")
    assert await addresses(asker, "a") == {0: "127.0.0.1:1"}
    assert await route(asker, "T") is not None  # although its version is the same as before


async def test_a_broker_says_goodbye(start, connect):
    asker = connect(await start())
    await asker.register("a", {"T": 4, "U": 4})
    await asker.register("b", {"T": 4}, address="127.0.0.1:2")
    goodbye = UnregisterBrokerRequest("a", "127.0.0.1:10911", "DefaultCluster", 0)
    assert (await asker.ask(RequestCode.UNREGISTER_BROKER, goodbye)).code == 0
    found = await route(asker, "T")
    assert found is not None
    assert [queue.broker_name for queue in found.queue_datas] == ["b"]
    assert await route(asker, "U") is None


async def test_a_late_goodbye_leaves_the_new_master_alone(start, connect):
    asker = connect(await start())
    await asker.register("a", {"T": 4}, address="127.0.0.1:1")
    await asker.register("a", {"T": 4}, address="127.0.0.1:2")
    await asker.ask(RequestCode.UNREGISTER_BROKER, UnregisterBrokerRequest("a", "127.0.0.1:1", "DefaultCluster", 0))
    assert await addresses(asker, "a") == {0: "127.0.0.1:2"}


async def test_the_data_version_question_tells_change_and_counts_as_a_sign_of_life(start, connect, clock):
    asker = connect(await start())
    header = QueryDataVersionRequest("a", "127.0.0.1:10911", "DefaultCluster", 0)
    version = DataVersion(1_700_000_000_000, 1).encode()
    unknown = await asker.ask(RequestCode.QUERY_DATA_VERSION, header, version)
    assert (unknown.fields, unknown.body) == ({"changed": "true"}, b"")
    await asker.register("a", {"T": 4}, version=1)
    clock.advance(100)
    same = await asker.ask(RequestCode.QUERY_DATA_VERSION, header, version)
    assert (same.fields, DataVersion.decode(same.body)) == ({"changed": "false"}, DataVersion(1_700_000_000_000, 1))
    clock.advance(100)
    assert await route(asker, "T") is not None
    newer = await asker.ask(RequestCode.QUERY_DATA_VERSION, header, DataVersion(1, 2).encode())
    assert newer.fields == {"changed": "true"}


async def test_a_silent_broker_expires_after_120_seconds(start, connect, clock):
    server = await start(serverChannelMaxIdleTimeSeconds=100_000)
    broker, client = connect(server), connect(server)
    await broker.register("a", {"T": 4})
    clock.advance(119)
    await until(lambda: clock.sleepers >= 2)
    assert await route(client, "T") is not None
    clock.advance(1.001)
    await until(lambda: clock.sleepers >= 2)
    clock.advance(10)  # the next scan
    connection = await broker.client.connection(broker.address)
    await until(lambda: not connection.is_open)
    assert await route(client, "T") is None
    assert ClusterInfo.decode((await client.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body) == ClusterInfo()


async def test_a_broker_is_evicted_at_once_when_its_connection_closes(start, connect):
    server = await start()
    broker, other = connect(server), connect(server)
    await broker.register("a", {"T": 4})
    await broker.client.close()
    async with asyncio.timeout(60):
        while await route(other, "T") is not None:
            pass


async def test_a_broker_that_registered_again_elsewhere_survives_the_end_of_its_old_connection(start, connect):
    server = await start()
    old, new = connect(server), connect(server)
    await old.register("a", {"T": 4})
    await new.register("a", {"T": 4})
    connection = await old.client.connection(old.address)
    connection.abort()
    probe = Client(clock=SystemClock())
    await probe.connection(server.address)
    await until(lambda: len(server._server.connections) == 2)
    assert await route(new, "T") is not None
    await probe.close()


async def test_filter_servers_are_part_of_the_route(start, connect):
    asker = connect(await start())
    await asker.register("a", {"T": 4}, filters=["127.0.0.1:3"])
    found = await route(asker, "T")
    assert found is not None
    assert found.filter_server_table == {"127.0.0.1:10911": ["127.0.0.1:3"]}
    await asker.register("a", {"T": 4}, filters=[])
    found = await route(asker, "T")
    assert found is not None
    assert found.filter_server_table == {}


async def test_a_binary_registration_is_answered_in_binary(start, connect):
    asker = connect(await start())
    request = registration("a", {"T": 4})
    request.serialization = BINARY
    assert (await asker.client.request(asker.address, request, 30)).serialization == BINARY
