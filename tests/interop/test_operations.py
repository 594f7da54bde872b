"""Apache's admin client at work on our broker while Apache's consumers are online: resets, states, tracks."""

import re

from ariane.protocol.codes import RequestCode
from ariane.protocol.headers import ResetOffsetRequest
from tests.broker.talk import Talk
from tests.cluster import Cluster
from tests.interop.quick import FIRST
from tests.peers import Driver, Queue, unique
from tests.peers.clients import PushConsumer


def consumed(java: Driver, quick: Cluster, count: int = 3) -> tuple[str, PushConsumer]:
    """A topic of one queue with some messages, and a consumer that has them all."""
    topic = unique("topic")
    java.mqadmin("updateTopic", "-n", quick.namesrv, "-b", quick.broker_address, "-t", topic, "-r", "1", "-w", "1")
    with java.producer(quick.namesrv) as producer:
        for i in range(count):
            producer.send(topic, f"m-{i}")
    consumer = java.push_consumer(quick.namesrv, topic, consumeFromWhere=FIRST)
    consumer.await_messages(count)
    consumer.persist_offsets()
    return topic, consumer


def committed(quick: Cluster, consumer: PushConsumer, topic: str) -> int:
    return quick.call(lambda: quick.broker.offsets.get(consumer.group or "", topic, 0))


def test_an_online_consumer_is_reset_and_consumes_again(quick: Cluster, java: Driver) -> None:
    topic, consumer = consumed(java, quick)
    words = ("resetOffsetByTime", "-n", quick.namesrv, "-g", consumer.group or "", "-t", topic, "-s", "0", "-f", "true")
    with consumer:
        text = java.mqadmin(*words)
        assert "rollback consumer offset by specified group" in text
        assert sorted(m.body for m in consumer.await_messages(6)[3:]) == [b"m-0", b"m-1", b"m-2"]


def test_the_broker_alone_resets_a_consumer_that_knows_nothing_of_it(quick: Cluster, java: Driver) -> None:
    topic, consumer = consumed(java, quick)
    fields = {**ResetOffsetRequest(topic, consumer.group or "", 0).fields(), "queueId": "0", "offset": "1"}
    with consumer, java.producer(quick.namesrv) as producer:
        quick.run(ask_reset(quick, fields))
        producer.send(topic, "m-3")
        bodies = [m.body for m in consumer.await_messages(6)[3:]]
        consumer.persist_offsets()
    assert sorted(bodies) == [b"m-1", b"m-2", b"m-3"]
    assert committed(quick, consumer, topic) == 4


async def ask_reset(quick: Cluster, fields: dict[str, str]) -> None:
    async with Talk.beside(quick.broker) as talk:
        answer = await talk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        assert answer.code == 0, answer.remark


def test_admin_methods_see_the_consumer(quick: Cluster, java: Driver) -> None:
    topic, consumer = consumed(java, quick)
    broker = quick.broker_address
    with consumer, java.admin(quick.namesrv) as admin:
        running = admin.invoke("getConsumerRunningInfo", consumer.group, consumer.client_id, True)
        assert running["jstack"]
        assert topic in str(running["mqTable"])
        assert consumer.client_id in admin.invoke("getConsumeStatus", topic, consumer.group, None)
        assert consumer.group in admin.invoke("getAllSubscriptionGroup", broker, 3000)["subscriptionGroupTable"]
        spans = admin.invoke("queryConsumeTimeSpan", topic, consumer.group)
        assert topic in {Queue.read(span["messageQueue"]).topic for span in spans}
        stats = admin.invoke("examineConsumeStats", consumer.group)
        assert {entry["value"]["consumerOffset"] for entry in stats["offsetTable"]} >= {3}
        assert admin.invoke("queryTopicConsumeByWho", topic)["groupList"] == [consumer.group]
        message = consumer.messages()[0]
        assert admin.track(topic, message.offset_msg_id)[0]["trackType"] == "CONSUMED"


def test_a_message_is_consumed_directly_by_the_client_an_operator_names(quick: Cluster, java: Driver) -> None:
    topic, consumer = consumed(java, quick, 1)
    with consumer, java.admin(quick.namesrv) as admin:
        message = consumer.messages()[0]
        result = admin.invoke(
            "consumeMessageDirectly", consumer.group, consumer.client_id, topic, message.offset_msg_id
        )
        assert result["consumeResult"] == "CR_SUCCESS"
        assert len(consumer.await_messages(2)) == 2


def test_members_that_disagree_are_named_and_apaches_tool_still_reads_the_answer(quick: Cluster, java: Driver) -> None:
    topic, group = unique("topic"), unique("group")
    with java.producer(quick.namesrv) as producer:
        producer.send(topic, "create it")
    with (
        java.push_consumer(quick.namesrv, {topic: "TagA"}, group, instanceName=unique("first")),
        java.push_consumer(quick.namesrv, {topic: "TagB"}, group, instanceName=unique("second")),
        java.admin(quick.namesrv) as admin,
    ):
        connection = admin.invoke("examineConsumerConnectionInfo", group)
        found = quick.call(quick.broker.clients.inconsistencies)
    assert len(connection["connectionSet"]) == 2
    [inconsistency] = [item for item in found if item.group == group]
    assert {"TagA", "TagB"} <= set(re.findall(r"Tag.", str(inconsistency)))
