"""What clients and tools ask of the name server, and what operators change."""

import json

import pytest

from ariane.errors import ConfigError
from ariane.namesrv import NameServer
from ariane.protocol.bodies import KVTable, TopicConfig, TopicList
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import (
    AddWritePermOfBrokerRequest,
    DeleteKVConfigRequest,
    DeleteTopicFromNamesrvRequest,
    GetKVConfigRequest,
    GetKVListByNamespaceRequest,
    GetRouteInfoRequest,
    GetTopicsByClusterRequest,
    PutKVConfigRequest,
    WipeWritePermOfBrokerRequest,
)
from ariane.settings import parse_properties
from tests.namesrv.conftest import namesrv_options


def topics(answer) -> list[str]:
    return sorted(TopicList.decode(answer.body).topic_list)


def flagged(name: str, flag: int) -> TopicConfig:
    return TopicConfig(name, 4, 4, 6, topic_sys_flag=flag)


async def test_a_route_is_strict_json_in_the_form_every_client_takes(start, connect):
    asker = connect(await start())
    await asker.register("a", {"T": 4})
    answer = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest("T"))
    assert json.loads(answer.body) == {
        "queueDatas": [
            {"brokerName": "a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4},
        ],
        "brokerDatas": [
            {
                "brokerAddrs": {"0": "127.0.0.1:10911"},
                "brokerName": "a",
                "cluster": "DefaultCluster",
                "enableActingMaster": False,
            },
        ],
        "filterServerTable": {},
    }


async def test_a_missing_topic_is_answered_with_the_remark_that_clients_parse(start, connect):
    asker = connect(await start())
    answer = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest("Missing"))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark is not None
    assert answer.remark.startswith("No topic route info in name server for the topic: Missing\nSee http")


async def test_a_request_without_its_fields_is_an_error_and_nothing_else(start, connect):
    asker = connect(await start())
    assert (await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC)).code == ResponseCode.SYSTEM_ERROR
    assert (await asker.ask(RequestCode.REGISTER_BROKER)).code == ResponseCode.SYSTEM_ERROR


async def test_a_code_of_brokers_is_not_supported_here(start, connect):
    asker = connect(await start())
    answer = await asker.ask(RequestCode.SEND_MESSAGE)
    assert (answer.code, answer.remark) == (3, " request type 10 not supported")


async def test_topic_lists(start, connect):
    asker = connect(await start())
    await asker.register("a", {"U": flagged("U", 1), "S": flagged("S", 2), "B": flagged("B", 3), "P": 4}, cluster="c1")
    await asker.register("b", {"Q": 4, "P": 4}, cluster="c2", address="127.0.0.1:2")

    async def listed(code, header=None):
        return topics(await asker.ask(code, header))

    assert await listed(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["B", "P", "Q", "S", "U"]
    assert await listed(RequestCode.GET_TOPICS_BY_CLUSTER, GetTopicsByClusterRequest("c2")) == ["P", "Q"]
    assert await listed(RequestCode.GET_TOPICS_BY_CLUSTER, GetTopicsByClusterRequest("none")) == []
    assert await listed(RequestCode.GET_UNIT_TOPIC_LIST) == ["B", "U"]
    assert await listed(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["B", "S"]
    assert await listed(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["S"]
    system = await asker.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    assert topics(system) == ["a", "b", "c1", "c2"]
    assert TopicList.decode(system.body).broker_addr == "127.0.0.1:10911"


async def test_cluster_info_names_brokers_and_clusters(start, connect):
    asker = connect(await start())
    await asker.register("a", {}, cluster="c1")
    await asker.register("a", {}, cluster="c1", broker_id=1)
    info = json.loads((await asker.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
    assert info["clusterAddrTable"] == {"c1": ["a"]}
    assert info["brokerAddrTable"]["a"]["brokerAddrs"] == {"0": "127.0.0.1:10911", "1": "127.0.0.1:10912"}


async def test_write_permission_is_wiped_and_added_per_broker_with_a_count(start, connect):
    asker = connect(await start())
    await asker.register("a", {"T": 4, "U": 4})
    await asker.register("b", {"T": 4}, address="127.0.0.1:2")

    async def permissions(topic):
        answer = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic))
        return {queue["brokerName"]: queue["perm"] for queue in json.loads(answer.body)["queueDatas"]}

    assert await permissions("T") == {"a": 6, "b": 6}
    wiped = await asker.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerRequest("a"))
    assert wiped.fields == {"wipeTopicCount": "2"}
    assert await permissions("T") == {"a": 4, "b": 6}
    added = await asker.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, AddWritePermOfBrokerRequest("a"))
    assert added.fields == {"addTopicCount": "2"}
    assert await permissions("T") == {"a": 6, "b": 6}
    none = await asker.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerRequest("nobody"))
    assert none.fields == {"wipeTopicCount": "0"}


async def test_a_topic_is_deleted_everywhere_or_in_one_cluster(start, connect):
    asker = connect(await start())
    await asker.register("a", {"T": 4, "U": 4}, cluster="c1")
    await asker.register("b", {"T": 4, "U": 4}, cluster="c2", address="127.0.0.1:2")

    async def brokers(topic):
        answer = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic))
        return [queue["brokerName"] for queue in json.loads(answer.body)["queueDatas"]] if answer.code == 0 else []

    await asker.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequest("T"))
    await asker.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequest("U", "c1"))
    assert (await brokers("T"), await brokers("U")) == ([], ["b"])
    await asker.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequest("U", "c2"))
    missing = await asker.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequest("U"))
    assert (await brokers("U"), missing.code) == ([], 0)


async def test_kv_config_survives_a_restart(start, connect):
    server = await start()
    asker = connect(server)
    for key, value in (("k1", "v1"), ("k2", "ü"), ("k1", "new")):
        assert (await asker.ask(RequestCode.PUT_KV_CONFIG, PutKVConfigRequest("NS", key, value))).code == 0
    await asker.ask(RequestCode.DELETE_KV_CONFIG, DeleteKVConfigRequest("NS", "nothing"))
    await server.stop()
    asker = connect(await start())
    listed = await asker.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespaceRequest("NS"))
    assert KVTable.decode(listed.body).table == {"k1": "new", "k2": "ü"}
    assert (await asker.ask(RequestCode.GET_KV_CONFIG, GetKVConfigRequest("NS", "k2"))).fields == {"value": "ü"}
    assert (await asker.ask(RequestCode.DELETE_KV_CONFIG, DeleteKVConfigRequest("NS", "k2"))).code == 0
    gone = await asker.ask(RequestCode.GET_KV_CONFIG, GetKVConfigRequest("NS", "k2"))
    assert (gone.code, gone.remark) == (22, "No config item, Namespace: NS Key: k2")
    nowhere = await asker.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespaceRequest("NO"))
    assert (nowhere.code, nowhere.remark) == (22, "No config item, Namespace: NO")


async def test_a_kv_change_that_cannot_be_written_is_refused_and_not_seen(start, connect, tmp_path):
    (tmp_path / "kv").write_text("a file where the folder should be")
    asker = connect(await start())
    refused = await asker.ask(RequestCode.PUT_KV_CONFIG, PutKVConfigRequest("NS", "k", "v"))
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "kvConfig.json" in (refused.remark or "")
    assert (await asker.ask(RequestCode.GET_KV_CONFIG, GetKVConfigRequest("NS", "k"))).code == 22


async def test_a_damaged_kv_file_stops_the_start_with_its_name(tmp_path):
    (tmp_path / "kv.json").write_text('{"configTable":')
    options = namesrv_options(tmp_path, {"listenPort": 0, "kvConfigPath": tmp_path / "kv.json"})
    with pytest.raises(ConfigError, match=r"kv.json \(kvConfigPath\)"):
        await NameServer(options, _env()).start()


def _env():
    from ariane.env import Env

    return Env()


async def test_order_configuration_is_in_the_route_when_enabled_and_in_every_answer_to_a_registration(start, connect):
    asker = connect(await start(orderMessageEnable="true"))
    await asker.ask(RequestCode.PUT_KV_CONFIG, PutKVConfigRequest("ORDER_TOPIC_CONFIG", "T", "a:4"))
    answer = await asker.register("a", {"T": 4})
    assert KVTable.decode(answer.body).table == {"T": "a:4"}

    async def order():
        answer = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest("T"))
        return json.loads(answer.body).get("orderTopicConf")

    assert await order() == "a:4"
    await asker.ask(RequestCode.PUT_KV_CONFIG, PutKVConfigRequest("ORDER_TOPIC_CONFIG", "T", "a:8"))
    assert await order() == "a:8"
    await asker.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=false")
    assert await order() is None


async def test_the_configuration_is_shown_and_only_what_is_safe_is_changed(start, connect, tmp_path):
    asker = connect(await start())

    async def shown():
        answer = await asker.ask(RequestCode.GET_NAMESRV_CONFIG)
        return {entry.key: entry.value for entry in parse_properties(answer.body.decode())}

    before = await shown()
    assert before["orderMessageEnable"] == "false"
    assert (await asker.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")).code == 0
    assert (await shown())["orderMessageEnable"] == "true"
    assert "orderMessageEnable=true\n" in (tmp_path / "namesrv.conf").read_text()
    path = await asker.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"kvConfigPath=/tmp/x")
    assert (path.code, path.remark) == (ResponseCode.NO_PERMISSION, "Can not update config path")
    for line in (b"listenPort=1", b"tls.server.mode=disabled", b"nonsense=1"):
        assert (await asker.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=line)).code == ResponseCode.NO_PERMISSION
    for body in (b"orderMessageEnable=maybe", b"\xff\xfe"):
        assert (await asker.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)).code == ResponseCode.SYSTEM_ERROR
    assert await shown() == {**before, "orderMessageEnable": "true"}


async def test_two_keys_change_together_or_not_at_all(start, connect):
    asker = connect(await start())
    body = b"orderMessageEnable=true\nlistenPort=1\n"
    assert (await asker.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)).code == ResponseCode.NO_PERMISSION
    assert b"orderMessageEnable=false" in (await asker.ask(RequestCode.GET_NAMESRV_CONFIG)).body
