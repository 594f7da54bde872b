"""The harness by itself: Apache's client and tools against Apache's own servers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.peers import ApacheBroker, Driver, PeerError, Queue, aio, answer, echo, outgoing, unique, until
from tests.peers.clients import Producer, PushConsumer
from tests.peers.fixtures import ApacheCluster
from tests.peers.jvm import Server

FIRST = "CONSUME_FROM_FIRST_OFFSET"


@pytest.fixture(scope="module")
def namesrv(apache_cluster: ApacheCluster) -> str:
    """The address of the shared cluster."""
    return apache_cluster.namesrv


@pytest.fixture(scope="module")
def producer(java: Driver, namesrv: str) -> Iterator[Producer]:
    """One producer for the tests that do not care about theirs."""
    with java.producer(namesrv) as producer:
        yield producer


def test_a_message_sent_is_a_message_received(java: Driver, namesrv: str, producer: Producer) -> None:
    topic = unique("topic")
    sent = producer.send(topic, b"\x00\xff binary", tags="A", keys=["k1", "k2"], properties={"a": "1"})
    with java.push_consumer(namesrv, topic, consumeFromWhere=FIRST) as consumer:
        [got] = consumer.await_messages(1)
        assert {queue.topic for queue in consumer.queues()} >= {topic}
    assert sent.status == "SEND_OK"
    assert (got.body, got.tags, got.keys, got.properties["a"]) == (b"\x00\xff binary", "A", "k1 k2", "1")
    assert (got.msg_id, got.offset_msg_id, got.queue) == (sent.msg_id, sent.offset_msg_id, sent.queue)


def test_every_way_to_send_arrives(java: Driver, namesrv: str, producer: Producer) -> None:
    topic = unique("topic")
    where = producer.send(topic, "sync").queue
    assert producer.send_async(topic, "async").status == "SEND_OK"
    producer.send_oneway(topic, "one-way")
    batch = producer.send_batch([outgoing(topic, f"batch-{i}") for i in range(3)])
    assert len(batch.msg_id.split(",")) == 3
    assert producer.send(topic, "to a queue", queue=Queue(topic, where.broker, 2)).queue.queue_id == 2
    hashed = {producer.send(topic, f"hash-{i}", hash_key="k").queue for i in range(3)}
    assert len(hashed) == 1
    producer.send(topic, "delayed", delay_level=1)
    with java.push_consumer(namesrv, topic, consumeFromWhere=FIRST) as consumer:
        bodies = {message.body.decode() for message in consumer.await_messages(11)}
    assert bodies == {
        *("sync", "async", "one-way", "to a queue", "delayed"),
        *(f"batch-{i}" for i in range(3)),
        *(f"hash-{i}" for i in range(3)),
    }


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_burst_accounts_for_every_message(java: Driver, namesrv: str, producer: Producer, mode: str) -> None:
    topic = unique("topic")
    burst = producer.burst(topic, 300, size=64, mode=mode, tags="T", key_prefix="k")
    assert sorted(result.index for result in burst.sent) == list(range(300))
    assert burst.failed == []
    with java.push_consumer(namesrv, {topic: "T"}, consumeFromWhere=FIRST) as consumer:
        bodies = {message.body for message in consumer.await_messages(300)}
    assert bodies == {f"m-{i}".encode().ljust(64, b".") for i in range(300)}


def test_errors_carry_class_and_code(java: Driver, namesrv: str, producer: Producer) -> None:
    with pytest.raises(PeerError) as refused:
        producer.send("no such topic!", "x")
    assert refused.value.kind == "MQClientException"
    with pytest.raises(PeerError) as missing, java.admin(namesrv) as admin:
        admin.invoke("examineTopicRouteInfo", unique("nowhere"))
    assert missing.value.code == 17
    with pytest.raises(PeerError, match="no option"):
        java.producer(namesrv, noSuchOption=1)


def test_a_scripted_failure_is_redelivered(java: Driver, namesrv: str, producer: Producer) -> None:
    topic = unique("topic")
    script = {"fail": 1, "delayLevel": 1}
    with java.push_consumer(namesrv, topic, script=script, consumeFromWhere=FIRST, events=True) as consumer:
        producer.send(topic, "again")
        first, second = consumer.await_messages(2)
    assert (first.verdict, second.verdict) == ("RECONSUME_LATER", "CONSUME_SUCCESS")
    assert (first.reconsume_times, second.reconsume_times) == (0, 1)
    assert first.msg_id == second.msg_id
    assert java.events("message").get(timeout=30)["consumer"] == consumer.handle


def test_an_orderly_consumer_suspends_and_goes_on_in_order(java: Driver, namesrv: str, producer: Producer) -> None:
    topic = unique("topic")
    for i in range(3):
        producer.send(topic, str(i), hash_key="one")
    script = {"fail": 1, "suspendMillis": 50}
    with java.push_consumer(namesrv, topic, orderly=True, script=script, consumeFromWhere=FIRST) as consumer:
        got = consumer.await_messages(6)
    assert [message.body for message in got] == [b"0", b"0", b"1", b"1", b"2", b"2"]


def test_a_held_listener_waits_for_release(java: Driver, namesrv: str, producer: Producer) -> None:
    topic = unique("topic")
    producer.send(topic, "held")
    with java.push_consumer(namesrv, topic, script={"hold": True}, consumeFromWhere=FIRST) as consumer:
        with pytest.raises(TimeoutError):
            consumer.await_messages(1, timeout=1)
        consumer.release()
        assert len(consumer.await_messages(1)) == 1


def test_sql_selects_by_property(java: Driver, namesrv: str, producer: Producer) -> None:
    topic = unique("topic")
    for i in range(4):
        producer.send(topic, str(i), properties={"a": i})
    with java.push_consumer(namesrv, {topic: {"sql": "a > 1"}}, consumeFromWhere=FIRST) as consumer:
        assert {message.body for message in consumer.await_messages(2)} == {b"2", b"3"}


@pytest.mark.parametrize("make_script", [echo, lambda producer: answer(producer, b"pong")])
def test_a_request_gets_its_reply(
    java: Driver, namesrv: str, producer: Producer, make_script: Callable[[Producer], dict[str, str]]
) -> None:
    topic = unique("topic")
    script = make_script(producer)
    producer.send(topic, "create it")
    with java.push_consumer(namesrv, topic) as consumer, java.producer(namesrv) as asker:
        consumer.await_messages(1)
        consumer.follow(script)
        reply = asker.request(topic, b"ping")
    assert reply.body == (b"ping" if script["reply"] == "echo" else b"pong")


def test_transactions_commit_roll_back_and_are_checked(java: Driver, namesrv: str) -> None:
    topic = unique("topic")
    with java.transaction_producer(namesrv) as producer:
        producer.send_in_transaction(topic, "committed", "COMMIT_MESSAGE")
        producer.send_in_transaction(topic, "rolled back", "ROLLBACK_MESSAGE")
        sent = producer.send_in_transaction(topic, "checked", "UNKNOW", answers=["UNKNOW", "COMMIT_MESSAGE"])
        assert sent.local_state == "UNKNOW"
        with java.push_consumer(namesrv, topic, consumeFromWhere=FIRST) as consumer:
            assert {message.body for message in consumer.await_messages(2)} == {b"committed", b"checked"}
        assert [check.verdict for check in producer.await_checks(2)][:2] == ["UNKNOW", "COMMIT_MESSAGE"]
    events = java.events("check")  # of every producer of the session
    while (event := events.get(timeout=30))["message"]["transactionId"] != sent.msg_id:
        continue
    assert event["producer"] == producer.handle


def test_a_lite_consumer_polls_seeks_and_commits(
    java: Driver, namesrv: str, apache_cluster: ApacheCluster, producer: Producer
) -> None:
    topic = unique("topic")
    queue = producer.send(topic, "0").queue
    producer.send(topic, "1", queue=queue)
    apache_cluster.broker.await_dispatch()
    with java.lite_consumer(namesrv, autoCommit=False) as consumer:
        assert queue in consumer.queues(topic)
        consumer.assign([queue])
        consumer.seek(queue, 0)
        assert [message.body for message in consumer.poll()] == [b"0", b"1"]
        consumer.commit({queue: 1})
        assert consumer.committed(queue) == 1
    with java.lite_consumer(namesrv, topic, consumeFromWhere=FIRST) as subscribed:
        assert subscribed.poll()
        assert queue in subscribed.assignment()


def test_a_pull_consumer_asks_for_offsets_and_messages(
    java: Driver, namesrv: str, apache_cluster: ApacheCluster, producer: Producer
) -> None:
    topic = unique("topic")
    sent = producer.send(topic, "x", keys="key", tags="A")
    apache_cluster.broker.await_dispatch()
    with java.pull_consumer(namesrv) as consumer:
        found = consumer.pull(sent.queue, 0)
        consumer.refresh()  # SQL needs the broker's version, which its answer to a heartbeat tells
        assert (found.status, found.next_offset, found.messages[0].body) == ("FOUND", 1, b"x")
        assert consumer.pull(sent.queue, 0, selector={"sql": "TAGS = 'B'"}).status == "NO_MATCHED_MSG"
        assert (consumer.min_offset(sent.queue), consumer.max_offset(sent.queue)) == (0, 1)
        assert consumer.search_offset(sent.queue, 0) == 0
        assert consumer.committed(sent.queue) == 0  # a young queue; an older one of an unknown group says -1
        consumer.commit(sent.queue, 1)
        assert consumer.committed(sent.queue) == 1
        assert consumer.view(topic, sent.offset_msg_id or "").body == b"x"
        assert [message.msg_id for message in consumer.query(topic, "key")] == [sent.msg_id]


def test_admin_methods_without_a_subcommand(
    java: Driver, namesrv: str, apache_cluster: ApacheCluster, producer: Producer
) -> None:
    topic = unique("topic")
    sent = producer.send(topic, "x")
    broker = apache_cluster.broker
    with java.admin(namesrv) as admin, java.push_consumer(namesrv, topic, consumeFromWhere=FIRST) as consumer:
        consumer.await_messages(1)
        consumer.persist_offsets()
        assert admin.invoke("examineTopicConfig", broker.address, topic)["topicName"] == topic
        assert topic in admin.invoke("fetchTopicsByCLuster", broker.cluster)["topicList"]
        stats = admin.invoke("examineTopicStats", topic)["offsetTable"]
        assert {Queue.read(entry["key"]): entry["value"]["maxOffset"] for entry in stats}[sent.queue] == 1
        assert consumer.group in admin.invoke("getAllSubscriptionGroup", broker.address, 3000)["subscriptionGroupTable"]
        assert consumer.client_id in admin.invoke("getConsumeStatus", topic, consumer.group, None)
        spans = admin.invoke("queryConsumeTimeSpan", topic, consumer.group)
        assert sent.queue in {Queue.read(span["messageQueue"]) for span in spans}
        assert admin.track(topic, sent.offset_msg_id or "")[0]["consumerGroup"] == consumer.group


def test_mqadmin_prints_and_survives_bad_options(java: Driver, namesrv: str, apache_cluster: ApacheCluster) -> None:
    assert apache_cluster.broker.address in java.mqadmin("clusterList", "-n", namesrv)
    assert "usage: mqadmin topicStatus" in java.mqadmin("topicStatus", "-n", namesrv)
    assert "not exist" in java.mqadmin("noSuchCommand")
    topic = unique("topic")
    assert "success" in java.mqadmin("updateTopic", "-n", namesrv, "-c", apache_cluster.broker.cluster, "-t", topic)
    assert topic in java.mqadmin("topicList", "-n", namesrv)


def test_logs_of_the_client_do_not_mix_with_what_mqadmin_prints(java_with: Callable[..., Driver], namesrv: str) -> None:
    fresh = java_with()
    with fresh.producer(namesrv) as producer:
        producer.send(unique("topic"), "x")
    log = fresh.home / "logs" / "tools.log"
    until(lambda: "RocketmqRemoting" in log.read_text(), 60, "a line of the log")
    assert "RocketmqRemoting" not in (fresh.home / "driver.console").read_text()


def test_endless_mqadmin_is_cut_off(java: Driver, namesrv: str, mqadmin_alone: Callable[..., Server]) -> None:
    words = ("clusterList", "-n", namesrv, "-i", "1")
    assert java.mqadmin_until("#Cluster Name", *words)
    with pytest.raises(TimeoutError):
        java.mqadmin(*words, limit=1)
    assert "#Cluster Name" in java.mqadmin("clusterList", "-n", namesrv)
    mqadmin_alone(*words).await_line("#Cluster Name")


def test_two_consumers_share_the_queues_and_broadcast_does_not(java: Driver, namesrv: str, producer: Producer) -> None:
    topic, group = unique("topic"), unique("group")
    producer.send(topic, "create it")
    with java.push_consumer(namesrv, topic, group) as one, java.push_consumer(namesrv, topic, group) as other:
        until(lambda: len(_of(topic, one)) == len(_of(topic, other)) == 2, 60, "an even share")
        assert not set(_of(topic, one)) & set(_of(topic, other))
    options: dict[str, Any] = {"messageModel": "BROADCASTING", "consumeFromWhere": FIRST}
    circle = "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle"
    group = unique("group")
    with (
        java.push_consumer(namesrv, topic, group, **options) as one,
        java.push_consumer(namesrv, topic, group, allocateMessageQueueStrategy=circle, **options) as other,
    ):
        producer.send(topic, "to all")
        for consumer in (one, other):
            assert {message.body for message in consumer.await_messages(2)} == {b"create it", b"to all"}


def _of(topic: str, consumer: PushConsumer) -> list[Queue]:
    return [queue for queue in consumer.queues() if queue.topic == topic]


def test_a_traced_send_can_be_traced(java: Driver, namesrv: str) -> None:
    topic = unique("topic")
    with java.producer(namesrv, trace=True) as producer:
        sent = producer.send(topic, "traced")
        words = ("queryMsgTraceById", "-n", namesrv, "-i", sent.msg_id)
        until(lambda: producer.group in java.mqadmin(*words), 60, "the trace")


def test_binary_headers_speak_to_the_same_broker(java_binary: Driver, namesrv: str) -> None:
    topic = unique("topic")
    with java_binary.producer(namesrv) as producer:
        producer.send(topic, "binary", keys="k")
        with java_binary.push_consumer(namesrv, topic, consumeFromWhere=FIRST) as consumer:
            assert consumer.await_messages(1)[0].body == b"binary"


def test_tls_clients_reach_a_permissive_server(java_tls: Driver, namesrv: str) -> None:
    topic = unique("topic")
    with java_tls.producer(namesrv, useTLS=True) as producer:
        assert producer.send(topic, "secret").status == "SEND_OK"


async def test_an_async_test_keeps_its_loop_free(java: Driver, namesrv: str) -> None:
    topic = unique("topic")
    async with await aio(java).producer(namesrv) as producer:
        sent = await producer.send(topic, "x")
        assert await java.acall("ops")
    assert sent.status == "SEND_OK"


def test_acknowledged_messages_survive_kill_and_restart(
    java: Driver, apache_broker: Callable[..., ApacheBroker], namesrv: str
) -> None:
    broker = apache_broker(namesrv, config={"brokerName": unique("broker"), "flushDiskType": "SYNC_FLUSH"})
    topic = unique("topic")
    java.mqadmin("updateTopic", "-n", namesrv, "-b", broker.address, "-t", topic, "-r", "1", "-w", "1")
    with java.producer(namesrv) as producer:
        assert len(producer.burst(topic, 20).sent) == 20
        broker.kill()
        assert (broker.store / "abort").exists()
        broker.restart()
        producer.send(topic, "after")
    with java.push_consumer(namesrv, topic, consumeFromWhere=FIRST) as consumer:
        assert len(consumer.await_messages(21)) == 21
    broker.stop()
    assert not (broker.store / "abort").exists()


def test_acl_keys_open_the_broker(java: Driver, apache_broker: Callable[..., ApacheBroker], namesrv: str) -> None:
    access, secret = "test-access", "test-secret"
    acl = f"accounts:\n- accessKey: {access}\n  secretKey: {secret}\n  admin: true\n"
    config = {"brokerName": unique("broker"), "brokerClusterName": unique("cluster"), "aclEnable": "true"}
    broker = apache_broker(namesrv, config=config, files={"conf/plain_acl.yml": acl})
    topic = unique("topic")
    words = ["updateTopic", "-n", namesrv, "-b", broker.address, "-t", topic]
    assert "success" in java.mqadmin(*words, access_key=access, secret_key=secret)
    assert "success" not in java.mqadmin(*words)
    with (
        java.producer(namesrv, access_key=access, secret_key=secret) as producer,
        java.producer(namesrv) as stranger,
    ):
        assert producer.send(topic, "x").status == "SEND_OK"
        with pytest.raises(PeerError):
            stranger.send(topic, "x")
