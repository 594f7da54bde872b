"""Every mqadmin subcommand that a broker answers, run against Apache's cluster and ours: the texts must be the same."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.interop.quick import FIRST
from tests.peers import Driver, Queue, unique, until
from tests.peers.clients import PushConsumer
from tests.peers.fixtures import ApacheCluster
from tests.peers.messages import SendResult

NORMAL = (
    (r"[0-9A-F]{56}|[0-9A-F]{32}", "ID"),
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:]\d{3})?", "TIME"),
    (r"\b1[5-9]\d{11}\b", "MILLIS"),
    (r"127\.0\.0\.1:\d+", "HOST"),
    (r"@side-[a-z]+", "@CLIENT"),
    (r"(commitLogOffset=|CommitLog Offset:\s*|physicOffset=)\d+", r"\1PLACE"),  # other messages lie before
    (r"[ \t]+", " "),
)


@dataclass
class Side:
    """One of the two clusters, how to fill a command in for it, and how to make its texts comparable."""

    java: Driver
    namesrv: str
    address: str
    name: str
    dispatched: Callable[[], object] = bool  # returns when all that was sent is in its queues
    sent: list[SendResult] = field(default_factory=list)

    def mqadmin(self, *words: str) -> str:
        text = self.java.mqadmin(*map(self.fill, words), "-n", self.namesrv)
        for ours, anybodys in ((self.address, "ADDRESS"), (self.namesrv, "NAMESRV"), (self.name, "NAME")):
            text = text.replace(ours, anybodys)
        for pattern, word in NORMAL:
            text = re.sub(pattern, word, text)
        return text

    def fill(self, word: str) -> str:
        first = self.sent[0] if self.sent else None
        known = {"BROKER": self.address, "BNAME": self.name}
        if first is not None:
            known |= {"OFFSET-ID": first.offset_msg_id or "", "UNIQUE-ID": first.msg_id}
        return known.get(word, word)


@dataclass
class Pair:
    """Both clusters with the same messages in the same queues, and a consumer of each that has consumed them."""

    sides: list[Side]
    topic: str
    group: str

    def both(self, *words: str) -> tuple[str, str]:
        ours, apaches = (side.mqadmin(*words) for side in self.sides)
        return ours, apaches

    def same(self, *words: str) -> str:
        """The text that both gave."""
        ours, apaches = self.both(*words)
        assert ours == apaches
        return ours


@pytest.fixture(scope="module")
def pair(quick: Cluster, apache_cluster: ApacheCluster, java: Driver) -> Iterator[Pair]:
    broker = apache_cluster.broker
    ours = Side(java, quick.namesrv, quick.broker_address, quick.broker.options.broker_name)
    apaches = Side(java, apache_cluster.namesrv, broker.address, broker.name, broker.await_dispatch)
    pair = Pair([ours, apaches], unique("topic"), unique("group"))
    with ExitStack() as stack:
        for side, instance in zip(pair.sides, ("side-ours", "side-apache"), strict=True):
            create(side, pair.topic)
            side.sent = send(side, pair.topic)
            consumer = stack.enter_context(consume(side, pair.topic, pair.group, instance))
            consumer.await_messages(4)
            until(lambda c=consumer, s=side: has_committed(c, s, pair.group), 60, "all offsets committed")
        yield pair


def has_committed(consumer: PushConsumer, side: Side, group: str) -> bool:
    """Whether the broker has the offsets of everything; a message counts a moment after its listener has seen it."""
    consumer.persist_offsets()
    return "Diff Total: 0" in side.mqadmin("consumerProgress", "-g", group)


def create(side: Side, topic: str) -> None:
    assert "success" in side.mqadmin("updateTopic", "-b", "BROKER", "-t", topic, "-r", "2", "-w", "2")


def send(side: Side, topic: str) -> list[SendResult]:
    with side.java.producer(side.namesrv) as producer:
        sent = [
            producer.send(topic, f"m-{i}", queue=Queue(topic, side.name, i % 2), keys=[f"k{i}"], tags="TagA")
            for i in range(4)
        ]
    side.dispatched()
    return sent


def consume(side: Side, topic: str, group: str, instance: str) -> PushConsumer:
    return side.java.push_consumer(
        side.namesrv, {topic: "TagA || TagB"}, group, consumeFromWhere=FIRST, instanceName=instance
    )


def scratch(pair: Pair) -> tuple[str, str]:
    """A topic with the same messages on both sides, and a group that nobody is in, both of the test's own."""
    topic = unique("topic")
    for side in pair.sides:
        create(side, topic)
        send(side, topic)
    return topic, unique("group")


SAME = [
    "topicClusterList -t TOPIC",
    "topicStatus -t TOPIC",
    "getConsumerConfig -g GROUP",
    "consumerStatus -g GROUP",
    "consumerConnection -g GROUP",
    "consumerConnection -g nobody",
    "consumerProgress -g nobody",
    "producerConnection -g nobody -t TOPIC",
    "queryMsgById -i OFFSET-ID",
    "queryMsgByKey -t TOPIC -k k1",
    "queryMsgByKey -t TOPIC -k no-such-key",
    "queryMsgByUniqueKey -t TOPIC -i UNIQUE-ID",
    "queryMsgByOffset -t TOPIC -b BNAME -i 0 -o 1",
    "queryMsgByOffset -t TOPIC -b BNAME -i 0 -o 77",
    "queryMsgTraceById -i UNIQUE-ID -t TOPIC",
    "printMsgByQueue -t TOPIC -a BNAME -i 0 -p true -d true",
    "printMsgByQueue -t TOPIC -a BNAME -i 1 -f true",
    "consumeMessage -t TOPIC -b BNAME -i 0 -o 0 -c 2",
    "queryCq -t TOPIC -q 0 -i 0 -c 2 -b BROKER",
    "queryCq -t TOPIC -q 0 -i 99 -c 2 -b BROKER",
    "queryCq -t TOPIC -q 0 -i 0 -c 1 -b BROKER -g GROUP",
    "queryCq -t no_such_topic -q 0 -i 0 -c 1 -b BROKER",
    "cleanExpiredCQ -b BROKER",
    "deleteExpiredCommitLog -b BROKER",
    "cleanUnusedTopic -b BROKER",
]


@pytest.mark.parametrize("command", SAME)
def test_the_same_text(pair: Pair, command: str) -> None:
    words = [{"TOPIC": pair.topic, "GROUP": pair.group}.get(word, word) for word in command.split()]
    pair.same(*words)


def lines(text: str) -> list[str]:
    """Lines in no order: Java prints sets as their hashes fall."""
    return sorted(line.strip() for line in text.splitlines() if line.strip())


def without_rates(text: str) -> str:
    return re.sub(r"(TPS:|rt=|RT:|true|false) *-?\d+(\.\d+)?", r"\1 N", text)


def progress(text: str) -> list[str]:
    """Rows of a group's progress; that of the retry topic is there once the client has committed it."""
    return [line for line in lines(without_rates(text)) if not line.startswith("%RETRY%")]


def test_messages_of_all_queues(pair: Pair) -> None:
    ours, apaches = pair.both("printMsg", "-t", pair.topic, "-d", "true")
    assert lines(ours) == lines(apaches)
    assert ours.count("MSGID") == 4


def test_progress_of_a_group(pair: Pair) -> None:
    for more in ([], ["-s", "true"]):
        ours, apaches = pair.both("consumerProgress", "-g", pair.group, *more)
        assert progress(ours) == progress(apaches)
    ours, apaches = pair.both("consumerProgress")
    [mine], [theirs] = ([line for line in text.splitlines() if line.startswith(pair.group)] for text in (ours, apaches))
    assert mine.split()[:5] == theirs.split()[:5]


def test_progress_of_all_groups_of_a_broker(pair: Pair) -> None:
    ours, apaches = pair.both("brokerConsumeStats", "-b", "BROKER")
    assert ours.splitlines()[0] == apaches.splitlines()[0]
    mine, theirs = (lines("\n".join(re.findall(rf"{pair.topic}.*", text))) for text in (ours, apaches))
    assert mine == theirs
    assert len(mine) == 2


def test_statistics_of_a_topic(pair: Pair) -> None:
    ours, apaches = pair.both("statsAll", "-t", pair.topic)
    mine, theirs = ([line.split()[:2] for line in text.splitlines()] for text in (ours, apaches))
    assert mine == theirs


def test_a_queue_is_allocated_to_each_address(pair: Pair) -> None:
    ours, apaches = pair.both("allocateMQ", "-t", pair.topic, "-i", "10.0.0.1,10.0.0.2")
    mine, theirs = (json.loads(text)["result"] for text in (ours, apaches))
    assert mine.keys() == theirs.keys()
    assert {key: len(queues) for key, queues in mine.items()} == {"10.0.0.1": 1, "10.0.0.2": 1}


def test_producers_are_listed(pair: Pair) -> None:
    topic, group = scratch(pair)
    with ExitStack() as stack:
        for side, instance in zip(pair.sides, ("side-one", "side-two"), strict=True):
            settings = {"instanceName": instance, "heartbeatBrokerInterval": 1000}
            stack.enter_context(side.java.producer(side.namesrv, group, **settings)).send(topic, "hello")
        listed = ("producer", "-b", "BROKER")
        until(lambda: all(group in text for text in pair.both(*listed)), 60, "the producers' heartbeats")
        assert "@CLIENT" in pair.same("producerConnection", "-g", group, "-t", topic)
        ours, apaches = pair.both("producer", "-b", "BROKER")
    mine, theirs = ([line for line in lines(text) if group in line] for text in (ours, apaches))
    assert mine == theirs
    assert len(mine) == 1


def test_sending_tools(pair: Pair) -> None:
    topic, _ = scratch(pair)
    for words in (
        ("sendMessage", "-t", topic, "-p", "hello", "-b", "BNAME", "-i", "1", "-k", "key", "-c", "tag"),
        ("checkMsgSendRT", "-t", topic, "-a", "2", "-s", "16"),
        ("sendMsgStatus", "-b", "BNAME", "-s", "16", "-c", "2"),
    ):
        ours, apaches = map(without_rates, pair.both(*words))
        assert re.sub(r"queueOffset=\d+", "", ours) == re.sub(r"queueOffset=\d+", "", apaches)


def test_round_trips_of_a_cluster(pair: Pair, java_with: Callable[..., Driver]) -> None:
    java = java_with()  # the command goes on for ever, and what is left of it would appear in the next one's text
    row, words = r"DefaultCluster +\S+ +NaN +1 +0", ("clusterRT", "-a", "1", "-i", "1")
    texts = [java.mqadmin_until(row, *words, "-n", side.namesrv) for side in pair.sides]
    headings = {re.findall(r"#Cluster Name.*", text)[0] for text in texts}
    assert len(headings) == 1


def test_groups_are_made_changed_and_deleted(pair: Pair) -> None:
    group = unique("group")
    pair.same("updateSubGroup", "-b", "BROKER", "-g", group, "-r", "3", "-q", "2", "-d", "false")
    assert re.search(r"retryMaxTimes *= *3", pair.same("getConsumerConfig", "-g", group))
    pair.same("deleteSubGroup", "-b", "BROKER", "-g", group, "-r", "true")
    pair.same("getConsumerConfig", "-g", group)
    pair.same("updateSubGroup", "-c", "DefaultCluster", "-g", group)
    pair.same("deleteSubGroup", "-c", "DefaultCluster", "-g", group)


def test_offsets_are_cloned_reset_and_skipped(pair: Pair) -> None:
    topic, _ = scratch(pair)
    clone = unique("clone")
    pair.same("updateTopic", "-b", "BROKER", "-t", f"%RETRY%{clone}")  # without, progress finds no broker to ask
    for words in (
        ("cloneGroupOffset", "-s", pair.group, "-d", clone, "-t", pair.topic, "-o", "true"),
        ("consumerProgress", "-g", clone),
        ("resetOffsetByTime", "-g", clone, "-t", pair.topic, "-s", "0"),
        ("consumerProgress", "-g", clone),
        ("skipAccumulatedMessage", "-g", clone, "-t", pair.topic, "-f", "true"),
        ("consumerProgress", "-g", clone),
        ("resetOffsetByTime", "-g", clone, "-t", topic, "-s", "now"),
    ):
        ours, apaches = pair.both(*words)
        assert progress(ours) == progress(apaches)
        assert words[0] != "consumerProgress" or pair.topic in ours


def test_an_online_group_is_reset(pair: Pair) -> None:
    topic, group = scratch(pair)
    with ExitStack() as stack:
        for side, instance in zip(pair.sides, ("side-red", "side-blue"), strict=True):
            consumer = stack.enter_context(consume(side, topic, group, instance))
            consumer.await_messages(4)
            consumer.persist_offsets()
        words = ("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0", "-f", "true")
        ours, apaches = pair.both(*words)
    assert lines(ours) == lines(apaches)
    assert "rollback consumer offset by specified group" in ours


def test_what_is_remembered_of_an_sql_expression(pair: Pair) -> None:
    topic, group = scratch(pair)
    with ExitStack() as stack:
        for side, instance in zip(pair.sides, ("side-ab", "side-cd"), strict=True):
            wanted = {topic: {"sql": "a > 1 AND b IS NOT NULL"}}
            stack.enter_context(side.java.push_consumer(side.namesrv, wanted, group, instanceName=instance))
        ours, apaches = pair.both("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "1", "-b", "BROKER", "-g", group)
    assert re.sub(r"\s", "", ours) == re.sub(r"\s", "", apaches)
    assert '"expression":"a > 1 AND b IS NOT NULL"' in ours


def test_a_message_is_consumed_directly(pair: Pair) -> None:
    texts = []
    for side, instance in zip(pair.sides, ("side-ours", "side-apache"), strict=True):
        text = side.java.mqadmin("consumerConnection", "-g", pair.group, "-n", side.namesrv)
        client = re.search(rf"\S+@{instance}", text)
        assert client is not None
        texts.append(side.mqadmin("queryMsgById", "-i", "OFFSET-ID", "-g", pair.group, "-d", client.group()))
    ours, apaches = (re.sub(r"spentTimeMills=\d+", "", text) for text in texts)
    assert ours == apaches
    assert "CR_SUCCESS" in ours


def test_the_configuration_is_shown_with_the_same_keys_and_changed(pair: Pair) -> None:
    texts = pair.both("getBrokerConfig", "-b", "BROKER")
    ours, apaches = (set(re.findall(r"^(\S+) = ", text, re.MULTILINE)) for text in texts)
    assert apaches - ours == set()
    assert all("." in key or key == "bindAddress" for key in ours - apaches)
    pair.same("updateBrokerConfig", "-b", "BROKER", "-k", "defaultQueryMaxNum", "-v", "33")
    assert all("defaultQueryMaxNum = 33" in text for text in pair.both("getBrokerConfig", "-b", "BROKER"))
    pair.same("updateBrokerConfig", "-c", "DefaultCluster", "-k", "defaultQueryMaxNum", "-v", "32")


def test_a_deleted_topic_is_gone(pair: Pair) -> None:
    topic, _ = scratch(pair)
    pair.same("deleteTopic", "-t", topic, "-c", "DefaultCluster")
    pair.same("topicRoute", "-t", topic)
    pair.same("topicStatus", "-t", topic)


def test_order_configuration(pair: Pair) -> None:
    topic, _ = scratch(pair)
    pair.same("updateTopic", "-b", "BROKER", "-t", topic, "-r", "2", "-w", "2", "-o", "true")
    for words in (("put", "-v", "NAME:2"), ("get",), ("delete",)):
        pair.same("updateOrderConf", "-t", topic, "-m", *words)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("updateAclConfig -b BROKER -a abcdefgh -s 12345678", 209),
        ("deleteAclConfig -b BROKER -a abcdefgh", 210),
        ("updateGlobalWhiteAddr -b BROKER -g 10.0.0.1", 211),
    ],
)
def test_access_control_that_is_off_is_refused_with_the_same_code(pair: Pair, command: str, code: int) -> None:
    for text in pair.both(*command.split()):
        assert f"CODE: {code}" in text


@pytest.mark.parametrize("command", ["clusterAclConfigVersion -b BROKER", "getAclConfig -b BROKER"])
def test_questions_about_access_control_are_answered_where_apaches_broker_is_silent(pair: Pair, command: str) -> None:
    assert "access control is off" in pair.sides[0].mqadmin(*command.split())


def test_exports_have_the_same_shape(pair: Pair, tmp_path: Path) -> None:
    for command in ("exportMetadata", "exportConfigs", "exportMetrics"):
        shapes = []
        for number, side in enumerate(pair.sides):
            folder = tmp_path / f"{command}-{number}"
            folder.mkdir()
            text = side.java.mqadmin(command, "-c", "DefaultCluster", "-f", str(folder), "-n", side.namesrv)
            assert "success" in text
            [file] = folder.rglob("*.json")
            shapes.append(shape(json.loads(file.read_text()), side))
        assert shapes[0] == shapes[1]


def shape(value: object, side: Side) -> object:
    """The keys of an export without those that are names of things."""
    if not isinstance(value, dict):
        return type(value).__name__
    items = list(value.values())
    if items and all(isinstance(item, dict) for item in items) and len({str(sorted(item)) for item in items}) == 1:
        return [shape(items[0], side)]
    things = ("scheduleMessageOffset", "commitLogDiskRatio_")
    return {k.replace(side.name, "NAME"): shape(v, side) for k, v in value.items() if not k.startswith(things)}
