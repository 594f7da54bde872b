"""Apache's broker, client and tools work through our name server as they do through Apache's.

One Apache broker registers with both name servers; every command then goes to each of them, and the texts are compared.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ariane.env import Env
from ariane.namesrv import NameServer
from tests.namesrv.conftest import namesrv_options
from tests.peers import ApacheBroker, ApacheNamesrv, Build, Driver, unique, until

FIRST = "CONSUME_FROM_FIRST_OFFSET"


class Background:
    """Our name server on a loop in a thread of its own, since the peers' fixtures block."""

    def __init__(self, server: NameServer) -> None:
        self.server = server
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(server.start())

    def _run(self, coroutine: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def stop(self) -> None:
        self._run(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(frozen=True)
class Pair:
    """Both name servers and the broker that registered with both."""

    ours: str
    apache: str
    broker: ApacheBroker


@pytest.fixture(scope="module")
def pair(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("ours")
    options = namesrv_options(home, {"listenPort": 0, "kvConfigPath": home / "kvConfig.json"})
    ours = Background(NameServer(options, Env()))
    try:
        with ApacheNamesrv(peers, tmp_path_factory.mktemp("namesrv")) as apache:
            both = f"{ours.server.address};{apache.address}"
            with ApacheBroker(peers, tmp_path_factory.mktemp("broker"), both) as broker:
                yield Pair(ours.server.address, apache.address, broker)
    finally:
        ours.stop()


@pytest.fixture
def same(java: Driver, pair: Pair) -> Callable[..., str]:
    """Run an mqadmin command against both; the texts must be the same but for the name server's own address."""

    def run(*args: str) -> str:
        texts = [java.mqadmin(*args, "-n", namesrv) for namesrv in (pair.ours, pair.apache)]
        ours, apache = (
            text.replace(address, "NAMESRV") for text, address in zip(texts, (pair.ours, pair.apache), strict=True)
        )
        assert sorted(ours.splitlines()) == sorted(apache.splitlines())
        return ours

    return run


def test_apaches_client_sends_and_consumes_through_our_name_server(java: Driver, pair: Pair) -> None:
    topic = unique("topic")
    with java.producer(pair.ours) as producer:
        assert producer.send(topic, b"through ours").status == "SEND_OK"
    with java.push_consumer(pair.ours, topic, consumeFromWhere=FIRST) as consumer:
        [message] = consumer.await_messages(1)
    assert message.body == b"through ours"


def test_apaches_client_speaks_binary_headers_with_our_name_server(java_binary: Driver, pair: Pair) -> None:
    with java_binary.producer(pair.ours) as producer:
        assert producer.send(unique("topic"), b"binary").status == "SEND_OK"


def test_apaches_client_speaks_tls_with_our_name_server(java_tls: Driver, pair: Pair) -> None:
    with java_tls.admin(pair.ours) as admin:
        assert pair.broker.name in str(admin.invoke("examineBrokerClusterInfo"))


def test_route_and_lists_print_the_same(java: Driver, pair: Pair, same: Callable[..., str]) -> None:
    topic = unique("topic")
    java.mqadmin("updateTopic", "-n", pair.ours, "-b", pair.broker.address, "-t", topic, "-r", "3", "-w", "5")
    until(lambda: topic in java.mqadmin("topicList", "-n", pair.ours), 60, "the topic at our name server")
    until(lambda: topic in java.mqadmin("topicList", "-n", pair.apache), 60, "the topic at Apache's name server")
    assert '"readQueueNums":3' in same("topicRoute", "-t", topic).replace(" ", "")
    assert topic in same("topicList")
    assert topic in same("topicList", "-c")
    columns = [_columns(java.mqadmin("clusterList", "-n", address)) for address in (pair.ours, pair.apache)]
    assert columns[0] == columns[1]
    assert [pair.broker.cluster, pair.broker.name, "0", pair.broker.address] in [row[:4] for row in columns[0]]


def _columns(text: str) -> list[list[str]]:
    """What the name server tells of each broker, without the rates and ages that the broker itself tells."""
    return sorted(line.split()[:5] for line in text.splitlines())


def test_a_missing_topic_prints_the_same(same: Callable[..., str]) -> None:
    text = same("topicRoute", "-t", "NoSuchTopic")
    assert "No topic route info in name server for the topic: NoSuchTopic" in text


def test_kv_commands_print_the_same(java: Driver, pair: Pair, same: Callable[..., str]) -> None:
    assert "success" in same("updateKvConfig", "-s", "NS", "-k", "key", "-v", "value")
    assert "success" in same("deleteKvConfig", "-s", "NS", "-k", "key")
    same("deleteKvConfig", "-s", "NS", "-k", "key")


def test_order_configuration_prints_the_same(same: Callable[..., str]) -> None:
    assert "no-topic" in same("updateOrderConf", "-t", "no-topic", "-m", "get")
    assert "broker:4" in same("updateOrderConf", "-t", "ordered", "-m", "put", "-v", "broker:4")
    assert "broker:4" in same("updateOrderConf", "-t", "ordered", "-m", "get")
    assert "success" in same("updateOrderConf", "-t", "ordered", "-m", "delete")


def test_write_permission_commands_print_the_same(pair: Pair, same: Callable[..., str]) -> None:
    topic = "SELF_TEST_TOPIC"
    assert "OK" in same("wipeWritePerm", "-b", pair.broker.name)
    assert '"perm":4' in same("topicRoute", "-t", topic).replace(" ", "")
    assert "OK" in same("addWritePerm", "-b", pair.broker.name)
    assert '"perm":6' in same("topicRoute", "-t", topic).replace(" ", "")
    assert "OK, 0" in same("wipeWritePerm", "-b", "nobody")


def test_configuration_commands_print_the_same(java: Driver, pair: Pair, same: Callable[..., str]) -> None:
    assert "success" in same("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    texts = [java.mqadmin("getNamesrvConfig", "-n", namesrv) for namesrv in (pair.ours, pair.apache)]
    ours, apache = ({line.split("=")[0].strip() for line in t.splitlines() if " = " in line} for t in texts)
    assert ours == apache
    assert any(line.split() == ["orderMessageEnable", "=", "true"] for line in texts[0].splitlines())
    same("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false")


def test_deleting_a_topic_prints_the_same(java: Driver, pair: Pair) -> None:
    topic = unique("topic")
    java.mqadmin("updateTopic", "-n", pair.ours, "-c", pair.broker.cluster, "-t", topic)
    until(lambda: topic in java.mqadmin("topicList", "-n", pair.ours), 60, "the topic at our name server")
    text = java.mqadmin("deleteTopic", "-n", pair.ours, "-c", pair.broker.cluster, "-t", topic)
    assert f"delete topic [{topic}] from cluster [{pair.broker.cluster}] success." in text
    assert f"delete topic [{topic}] from NameServer success." in text


def test_a_broker_that_stops_is_gone_from_both(java: Driver, pair: Pair, peers: Build, tmp_path: Path) -> None:
    namesrv = f"{pair.ours};{pair.apache}"
    with ApacheBroker(peers, tmp_path, namesrv, config={"brokerName": "second"}) as broker:
        until(lambda: "second" in java.mqadmin("clusterList", "-n", pair.ours), 60, "the second broker")
        broker.stop()
    until(lambda: "second" not in java.mqadmin("clusterList", "-n", pair.ours), 60, "ours to forget it")
    until(lambda: "second" not in java.mqadmin("clusterList", "-n", pair.apache), 60, "Apache's to forget it")


def test_a_slave_of_apaches_finds_its_master_through_our_name_server(
    java: Driver, peers: Build, pair: Pair, tmp_path: Path
) -> None:
    topic = unique("topic")
    java.mqadmin("updateTopic", "-n", pair.ours, "-b", pair.broker.address, "-t", topic)
    config = {"brokerName": pair.broker.name, "brokerId": 1, "brokerRole": "SLAVE"}
    with ApacheBroker(peers, tmp_path, pair.ours, config=config) as slave:
        copied = slave.store / "config" / "topics.json"
        until(lambda: copied.exists() and topic in copied.read_text(), 60, "the slave to copy the master's topics")
