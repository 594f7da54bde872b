"""Reading what is guarded, encrypted, or only left on a slave. Most use the reader as Spark does, without Spark."""

import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ariane import Admin, Producer
from ariane.errors import AccessDenied, ArianeError, BrokerRefused, RemotingError, StoreError
from ariane.message import Message, MessageQueue
from ariane.protocol.codes import RequestCode
from ariane.protocol.frame import FrameDecoder
from ariane.remoting.certificates import make_self_signed
from ariane.spark.arrow.schema import default_schema
from ariane.spark.broker_connection import BrokerConnection
from ariane.spark.topic.batch import TopicReader
from ariane.spark.topic.options import TopicOptions
from ariane.spark.topic.pull_range import QueueSlice
from ariane.spark.topic.reader import read_slice
from tests.cluster import running_cluster
from tests.peers import ApacheBroker, ApacheNamesrv, free_port, unique
from tests.spark.clusters import Target, await_that, numbered

ACL = """
accounts:
- accessKey: reader-key
  secretKey: reader-secret
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [orders=SUB]
- accessKey: owner-key
  secretKey: owner-secret
  admin: true
"""


def bodies(namesrv: str, topic: str, **options: Any) -> list[int]:
    """All bodies that a batch read gives."""
    given = {"nameserver": namesrv, "topic": topic, **{name.lower(): str(value) for name, value in options.items()}}
    reader = TopicReader(TopicOptions.parse(given, streaming=False), default_schema(broker_known=True))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return sorted(int(body) for batch in batches for body in batch.column("body").to_pylist())


def test_tls_carries_everything(apache: Target, ours: Target) -> None:
    for target in (apache, ours):
        topic = target.topic(queues=1)
        target.send(topic, numbered(topic, 100), queue_ids=(0,))
        assert bodies(target.namesrv, topic, tls=True, tlsInsecure=True) == list(range(100))


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """A folder of keys and certificates, self-signed; that of the client is locked by a password."""
    for name in ("server", "client", "other"):
        key, certificate = make_self_signed(name)
        (tmp_path / f"{name}.key").write_bytes(key)
        (tmp_path / f"{name}.pem").write_bytes(certificate)
    lock = ["openssl", "pkcs8", "-topk8", "-v2", "aes256", "-passout", "pass:a-secret", "-in", "client.key"]
    locked = subprocess.run(lock, cwd=tmp_path, check=True, capture_output=True).stdout
    (tmp_path / "client.key").write_bytes(locked)
    return tmp_path


def test_certificates_prove_servers_to_readers_and_readers_to_servers(certificates: Path) -> None:
    path = {file.name: str(file) for file in certificates.iterdir()}
    server = {
        "tls.test.mode.enable": "false", "tls.server.keyPath": path["server.key"],
        "tls.server.certPath": path["server.pem"], "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true", "tls.server.trustCertPath": path["client.pem"],
    }  # fmt: skip
    good = {
        "tls": "true", "tlsTrustCertPath": path["server.pem"],
        "tlsCertPath": path["client.pem"], "tlsKeyPath": path["client.key"], "tlsKeyPassword": "a-secret",
    }  # fmt: skip
    with running_cluster(certificates) as cluster:
        cluster.start_name_server(**server)
        cluster.start_broker(**server)
        target = Target(cluster.namesrv, "ours")
        topic = target.topic(queues=1)
        target.send(topic, numbered(topic, 100), queue_ids=(0,))
        assert bodies(cluster.namesrv, topic, **good) == list(range(100))
        part = QueueSlice(MessageQueue(topic, "broker-a", 0), 0, 100, (cluster.broker_address,))
        for wrong in (
            {"tlsTrustCertPath": path["other.pem"]},
            {"tlsCertPath": path["other.pem"], "tlsKeyPath": path["other.key"], "tlsKeyPassword": ""},
            {"tlsKeyPassword": "a-guess"},
        ):
            with pytest.raises(ArianeError, match="TLS"):
                bodies(cluster.namesrv, topic, **good | wrong)
            given = {"nameserver": cluster.namesrv, "topic": topic, "pulltimeoutms": "300"} | good | wrong
            options = TopicOptions.parse({name.lower(): value for name, value in given.items()}, streaming=False)
            with pytest.raises(ArianeError, match="TLS"):
                _read(part, options)


def test_keys_let_in_and_a_denial_says_that_it_is_one(
    apache_namesrv: Callable[..., ApacheNamesrv], apache_broker: Callable[..., ApacheBroker]
) -> None:
    namesrv = apache_namesrv().address
    apache_broker(namesrv, config={"aclEnable": "true"}, files={"conf/plain_acl.yml": ACL})
    owner = {"name_servers": namesrv, "access_key": "owner-key", "secret_key": "owner-secret"}
    with Admin(**owner) as admin, Producer("shop", **owner) as producer:
        for topic in ("orders", "secrets"):
            admin.create_topic(topic, queues=1)
            await_that("the topic", lambda topic=topic: topic in admin.topics())
            producer.send(Message(topic, b"7"))
    keys = {"accessKey": "reader-key", "secretKey": "reader-secret"}
    assert bodies(namesrv, "orders", **keys) == [7]
    assert bodies(namesrv, "orders", **keys, securityToken="a-token") == [7]  # Apache's signature covers it
    with pytest.raises(AccessDenied, match="secrets"):
        bodies(namesrv, "secrets", **keys)
    with pytest.raises(AccessDenied):
        bodies(namesrv, "orders", **keys | {"secretKey": "wrong-secret"})


def test_a_security_token_goes_with_a_request_and_is_signed() -> None:
    keys = {"nameserver": "127.0.0.1:1", "accesskey": "a-key", "secretkey": "a-secret", "securitytoken": "a-token"}
    access = TopicOptions.parse(keys | {"topic": "orders"}, streaming=False).access
    other = replace(access, security_token=None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        said = [_said(server, BrokerConnection(address, keys, 5)) for keys in (access, other)]
    assert [fields.get("SecurityToken") for fields in said] == ["a-token", None]
    assert said[0]["Signature"] != said[1]["Signature"]


def _said(server: socket.socket, connection: BrokerConnection) -> dict[str, str]:
    """The fields of a request that a client sends."""
    connection.send(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
    connection.close()
    client, _ = server.accept()
    with client, client.makefile("rb") as said:
        decoder = FrameDecoder()
        decoder.feed(said.read())
    (command,) = decoder.commands()
    return command.fields


@dataclass(frozen=True)
class Pair:
    """Apache's broker with a slave, and a topic of which both have everything."""

    namesrv: str
    master: ApacheBroker
    topic: str
    count: int


@pytest.fixture
def pair(apache_namesrv: Callable[..., ApacheNamesrv], apache_broker: Callable[..., ApacheBroker]) -> Pair:
    namesrv = apache_namesrv().address
    both = {"brokerName": unique("pair"), "brokerClusterName": "Pair"}
    master = apache_broker(namesrv, config=both | {"brokerRole": "ASYNC_MASTER", "haListenPort": free_port()})
    apache_broker(namesrv, config=both | {"brokerRole": "SLAVE", "brokerId": 1, "haListenPort": free_port()})
    target, topic = Target(namesrv, "apache"), unique("topic")
    target.topic(queues=1, name=topic)
    target.send(topic, numbered(topic, 500), queue_ids=(0,))
    await_that("the slave's copy", lambda: _both_have(namesrv, topic, 500))
    return Pair(namesrv, master, topic, 500)


def test_a_slave_is_read_when_the_master_is_gone(pair: Pair) -> None:
    pair.master.kill()
    assert bodies(pair.namesrv, pair.topic) == list(range(pair.count))


def test_a_stream_goes_on_at_the_slave_when_the_master_dies_under_it(spark: Any, pair: Pair, tmp_path: Path) -> None:
    batches: list[list[int]] = []

    def take(rows: Any, _: int) -> None:
        batches.append([int(row.body) for row in rows.collect()])
        if len(batches) == 2:
            pair.master.kill()

    reader = spark.readStream.format("rocketmq").schema("body string").option("nameServer", pair.namesrv)
    reader = reader.option("topic", pair.topic).option("startingOffsets", "earliest").option("group", unique("group"))
    writer = reader.option("maxOffsetsPerTrigger", 100).load().writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        await_that("all messages", lambda: query.exception() or sum(map(len, batches)) >= pair.count)
    finally:
        query.stop()
    assert query.exception() is None
    assert batches == [list(range(at, at + 100)) for at in range(0, pair.count, 100)]


def _both_have(namesrv: str, topic: str, count: int) -> bool:
    options = TopicOptions.parse({"nameserver": namesrv, "topic": topic, "pulltimeoutms": "500"}, streaming=False)
    with Admin(name_servers=namesrv) as admin:
        (queue,) = admin.queues(topic)
        addresses = admin.cluster_info().broker_addr_table[queue.broker_name].broker_addrs
    try:
        found = [_read(QueueSlice(queue, 0, count, (address,)), options) for address in addresses.values()]
    except (RemotingError, StoreError, BrokerRefused):  # a slave learns of new topics each few seconds
        return False
    return len(found) == 2 and all(len(rows) == count for rows in found)


def _read(part: QueueSlice, options: TopicOptions) -> list[Any]:
    return [row for batch in read_slice(part, options, BODY) for row in batch.to_pylist()]


BODY = pa.schema([("body", pa.binary())])


def test_dead_addresses_are_passed_over_and_a_broker_that_is_gone_is_named(ours: Target) -> None:
    topic = ours.topic(queues=1)
    ours.send(topic, numbered(topic, 50), queue_ids=(0,))
    options = TopicOptions.parse({"nameserver": ours.namesrv, "topic": topic, "pulltimeoutms": "1000"}, streaming=False)
    queue = MessageQueue(topic, "broker-a", 0)
    assert len(_read(QueueSlice(queue, 0, 50, (f"127.0.0.1:{free_port()}",)), options)) == 50  # asks the name server
    gone = QueueSlice(MessageQueue(topic, "broker-z", 0), 0, 50, ())
    with pytest.raises(RemotingError, match=r"broker-z.*nothing came for 1 s \(pullTimeoutMs\)"):
        _read(gone, options)
    with pytest.raises(StoreError, match="offset 200 is not there, the broker has 0 to 50"):
        _read(QueueSlice(queue, 200, 300, ()), options)
