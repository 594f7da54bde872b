"""Every subcommand of `ariane admin`, run against both clusters and compared with Apache's tool on the same cluster."""

import asyncio
import io
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ariane.cli.admin.call import parse
from ariane.cli.admin.main import execute
from ariane.cli.admin.table import SUBCOMMANDS, find
from ariane.client.options import ClientOptions
from ariane.errors import ArianeError
from tests.cluster import Cluster
from tests.interop.quick import FIRST
from tests.peers import Driver, Queue, unique, until
from tests.peers.clients import PushConsumer
from tests.peers.fixtures import ApacheCluster
from tests.peers.messages import SendResult

NORMAL = (
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:]\d{3})?", "TIME"),
    (r"[ \t]+\n", "\n"),
)


@dataclass
class Site:
    """A cluster, with the same command run by both tools."""

    java: Driver
    namesrv: str
    address: str
    name: str
    topic: str
    group: str
    sent: list[SendResult] = field(default_factory=list)
    client: str = ""

    def words(self, command: str) -> list[str]:
        known = {
            "BROKER": self.address, "BNAME": self.name, "TOPIC": self.topic, "GROUP": self.group,
            "OFFSET-ID": self.sent[0].offset_msg_id or "", "UNIQUE-ID": self.sent[0].msg_id, "CLIENT": self.client,
        }  # fmt: skip
        return [known.get(word, word) for word in command.split()]

    def apaches(self, command: str) -> str:
        return normal(self.java.mqadmin(*self.words(command), "-n", self.namesrv))

    def ours(self, command: str) -> str:
        return normal(admin(self.namesrv, *self.words(command)))


def normal(text: str) -> str:
    for pattern, word in NORMAL:
        text = re.sub(pattern, word, text)
    return text


def admin(namesrv: str, *words: str) -> str:
    """What `ariane admin` prints; the error's text when it fails."""
    command = find(words[0])
    assert command is not None
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            values = parse(command.flags(), [*words[1:], "-n", namesrv])
            asyncio.run(execute(command, values, ClientOptions(name_servers=namesrv)))
        except ArianeError as error:
            print(error)
        except SystemExit:
            pass  # the error is printed
    return out.getvalue()


@pytest.fixture(scope="module")
def sites(quick: Cluster, apache_cluster: ApacheCluster, java: Driver) -> Iterator[dict[str, Site]]:
    """Both clusters with four messages, and a consumer that has consumed them."""
    broker = apache_cluster.broker
    topic, group = unique("topic"), unique("group")
    found = {
        "ours": Site(java, quick.namesrv, quick.broker_address, quick.broker.options.broker_name, topic, group),
        "apaches": Site(java, apache_cluster.namesrv, broker.address, broker.name, topic, group),
    }
    with ExitStack() as stack:
        for kind, site in found.items():
            admin(site.namesrv, "updateTopic", "-b", site.address, "-t", topic, "-r", "2", "-w", "2")
            until(lambda s=site: topic in admin(s.namesrv, "topicList"), 60, "the topic")
            with java.producer(site.namesrv) as producer:
                site.sent = [
                    producer.send(topic, f"m-{i}", queue=Queue(topic, site.name, i % 2), keys=[f"k{i}"], tags="TagA")
                    for i in range(4)
                ]
            consumer = stack.enter_context(
                java.push_consumer(
                    site.namesrv, {topic: "TagA || TagB"}, group, consumeFromWhere=FIRST, instanceName=f"site-{kind}"
                )
            )
            consumer.await_messages(4)
            until(lambda c=consumer, s=site: has_committed(c, s), 60, "all offsets committed")
            client = re.search(rf"\S+@site-{kind}", admin(site.namesrv, "consumerConnection", "-g", group))
            assert client is not None
            site.client = client.group()
        yield found


def has_committed(consumer: PushConsumer, site: Site) -> bool:
    consumer.persist_offsets()
    return "Diff Total: 0" in site.ours("consumerProgress -g GROUP")


@pytest.fixture(params=["ours", "apaches"])
def site(request: pytest.FixtureRequest, sites: dict[str, Site]) -> Site:
    """First our cluster, then Apache's."""
    return sites[request.param]


def rows(text: str) -> list[str]:
    """Lines without the width of their columns, in no order: Java prints sets as their hashes fall."""
    return sorted(" ".join(line.split()) for line in text.splitlines() if line.strip())


EXACTLY = [  # the same text, to the last blank
    "topicClusterList -t TOPIC",
    "topicStatus -t TOPIC",
    "topicRoute -t TOPIC",
    "topicRoute -t TOPIC -l",
    "getConsumerConfig -g GROUP",
    "queryMsgById -i OFFSET-ID",
    "queryMsgByUniqueKey -t TOPIC -i UNIQUE-ID",
    "queryMsgByUniqueKey -t TOPIC -i UNIQUE-ID -a",
    "queryMsgByKey -t TOPIC -k k1",
    "queryMsgByOffset -t TOPIC -b BNAME -i 0 -o 1",
    "queryMsgByOffset -t TOPIC -b BNAME -i 0 -o 77",
    "printMsgByQueue -t TOPIC -a BNAME -i 0 -p true -d true",
    "printMsgByQueue -t TOPIC -a BNAME -i 1 -p true -s TagB",
    "printMsgByQueue -t TOPIC -a BNAME -i 1 -f true",
    "consumeMessage -t TOPIC -b BNAME -i 0 -o 0 -c 2",
    "consumeMessage -t TOPIC -b BNAME -i 1",
    "queryCq -t TOPIC -q 0 -i 0 -c 2 -b BROKER",
    "queryCq -t TOPIC -q 0 -i 0 -c 1 -b BROKER -g GROUP",
    "cleanExpiredCQ -b BROKER",
    "deleteExpiredCommitLog -b BROKER",
    "cleanUnusedTopic -b BROKER",
]
ROWS = [  # the same rows
    "topicList",
    "topicList -c",
    "consumerConnection -g GROUP",
    "consumerConnection -g GROUP -b BROKER",
    "consumerProgress",
    "consumerProgress -g GROUP",
    "consumerProgress -g GROUP -s true",
    "brokerConsumeStats -b BROKER",
    "statsAll -t TOPIC",
    "statsAll -a",
    "printMsg -t TOPIC -d true",
    "printMsg -t TOPIC -d false -s TagB",
    "getBrokerConfig -b BROKER",
    "getBrokerConfig -c DefaultCluster",
    "getNamesrvConfig",
    "queryMsgById -i OFFSET-ID -g GROUP -d CLIENT",
    "queryMsgByUniqueKey -t TOPIC -i UNIQUE-ID -g GROUP -d CLIENT",
    "brokerStatus -b BROKER",
    "brokerStatus -c DefaultCluster",
    "clusterList",
    "clusterList -m",
    "producer -b BROKER",
    "consumerStatus -g GROUP",
    "resetOffsetByTime -g GROUP -t TOPIC -s now -f true",  # last: Java's client does nothing else for 10 s then
]
CHANGES = {  # each builds on the one before
    "a topic": [
        "updateTopic -b BROKER -t tt_a -r 3 -w 2 -p 4",
        "updateTopic -c DefaultCluster -t tt_a -r 3 -w 2",
        "updateTopicPerm -b BROKER -t tt_a -p 6",
        "updateTopicPerm -c DefaultCluster -t tt_a -p 6",
        "deleteTopic -c DefaultCluster -t tt_a",
    ],
    "an ordered topic": [
        "updateOrderConf -t tt_o -m put -v BNAME:2",
        "updateOrderConf -t tt_o -m get",
        "updateTopic -b BROKER -t tt_o -r 2 -w 2 -o true",
        "updateTopic -c DefaultCluster -t tt_o -r 2 -w 2 -o true",
        "updateOrderConf -t tt_o -m delete",
    ],
    "a group": [
        "updateSubGroup -b BROKER -g tt_g -r 3 -q 2 -d false",
        "updateSubGroup -c DefaultCluster -g tt_g",
        "deleteSubGroup -b BROKER -g tt_g -r true",
        "deleteSubGroup -c DefaultCluster -g tt_g",
    ],
    "a KV configuration": [
        "updateKvConfig -s ns -k key -v value",
        "deleteKvConfig -s ns -k key",
    ],
    "an option of brokers": [
        "updateBrokerConfig -b BROKER -k defaultQueryMaxNum -v 33",
        "updateBrokerConfig -c DefaultCluster -k defaultQueryMaxNum -v 32",
    ],
}
OFFSETS = [  # the same rows, each twice by Apache's tool: a second reset finds another offset than the first
    "cloneGroupOffset -s GROUP -d tt_clone -t TOPIC -o true",
    "resetOffsetByTime -g tt_clone -t TOPIC -s 0",
    "skipAccumulatedMessage -g tt_clone -t TOPIC",
]
FIGURES = (
    (r"(TPS:|rt=|RT:|spentTimeMills=|lastUpdateTimestamp=|queueOffset=) *-?\d+(\.\d+)?", r"\1N"),
    (r"\b\d{13}\b", "MILLIS"),
    (r"\b\d+\.\d+\b(?!\.)", "F"),
)


def figures_out(text: str) -> str:
    for pattern, word in FIGURES:
        text = re.sub(pattern, word, text)
    return text


@pytest.mark.parametrize("command", EXACTLY)
def test_the_same_text(site: Site, command: str) -> None:
    theirs = site.apaches(command)
    assert site.ours(command).rstrip() == theirs.rstrip()
    assert "Exception" not in theirs


@pytest.mark.parametrize("what", CHANGES)
def test_the_same_text_of_changes(site: Site, what: str) -> None:
    for command in CHANGES[what]:
        theirs = site.apaches(command)
        assert site.ours(command).rstrip() == theirs.rstrip()
        assert "Exception" not in theirs


def test_offsets_are_moved_alike(site: Site) -> None:
    for command in OFFSETS:
        site.apaches(command)
        assert rows(site.ours(command)) == rows(site.apaches(command))


def test_the_permission_of_a_topic_is_changed(site: Site) -> None:
    topic = unique("topic")
    site.ours(f"updateTopic -b BROKER -t {topic} -r 2 -w 2")
    until(lambda: "perm" in site.ours(f"topicRoute -t {topic}"), 60, "the route")
    text = site.ours(f"updateTopicPerm -b BROKER -t {topic} -p 4")
    assert text.splitlines()[0] == f"update topic perm from 6 to 4 in {site.address} success."
    until(lambda: '"perm":4' in site.ours(f"topicRoute -t {topic}"), 60, "the permission")


@pytest.mark.parametrize("command", ROWS)
def test_the_same_rows(site: Site, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    name = command.split()[0]
    theirs, ours = (rows(figures_out(text)) for text in (site.apaches(command), site.ours(command)))
    if name in ("brokerStatus", "clusterList", "statsAll", "producer", "consumerProgress", "brokerConsumeStats"):
        ours, theirs = ([re.sub(r"(?<![\w.:-])\d+\b", "N", row) for row in text] for text in (ours, theirs))
    if name in ("brokerStatus",):
        ours, theirs = ([re.split(r" ?: ", row)[0] for row in text] for text in (ours, theirs))
    if name in ("topicList", "consumerProgress", "producer", "statsAll", "brokerConsumeStats"):
        mine = (site.topic, site.group)  # the JVM's own clients come and go meanwhile
        ours, theirs = ([row for row in text if any(one in row for one in mine)] for text in (ours, theirs))
    assert ours == theirs


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("consumerConnection -g nobody_here", 17),
        ("consumerProgress -g nobody_here", 17),
        ("producerConnection -g nobody_here -t TOPIC", 1),
        ("topicStatus -t no_such_topic", 17),
        ("queryMsgByKey -t TOPIC -k no-such-key", 208),
        ("queryMsgTraceById -i UNIQUE-ID -t TOPIC", 208),
        ("queryCq -t TOPIC -q 0 -i 99 -c 2 -b BROKER", None),
        ("updateAclConfig -b BROKER -a abcdefgh -s 12345678", 209),
        ("deleteAclConfig -b BROKER -a abcdefgh", 210),
        ("updateGlobalWhiteAddr -b BROKER -g 10.0.0.1", 211),
        ("queryCq -t no_such_topic -q 0 -i 0 -c 1 -b BROKER", None),
    ],
)
def test_the_same_failure(site: Site, command: str, code: int | None) -> None:
    """mqadmin prints a stack trace with the code."""
    theirs, ours = site.apaches(command), site.ours(command)
    if code is not None:
        assert f"CODE: {code}" in theirs
    assert re.findall(r"CODE: \d+", theirs)[:1] == re.findall(r"CODE: \d+", ours)[:1]


def test_sending(site: Site) -> None:
    for command in (
        "sendMessage -t TOPIC -p hello -b BNAME -i 1 -k key -c tag",
        "checkMsgSendRT -t TOPIC -a 2 -s 16",
        "sendMsgStatus -b BNAME -s 16 -c 2",
    ):
        theirs, ours = (
            re.sub(r"[0-9A-F]{32}", "ID", re.sub(r"(true) *\d+", r"\1", figures_out(text)))
            for text in (site.apaches(command), site.ours(command))
        )
        assert re.sub(r"queueId=\d+", "", ours).split() == re.sub(r"queueId=\d+", "", theirs).split()


def test_a_message_is_sent_again(site: Site) -> None:
    theirs, ours = (
        re.sub(r"[0-9A-F]{32}|queueId=\d+", "ID", figures_out(text))
        for text in (site.apaches("queryMsgById -i OFFSET-ID -s true"), site.ours("queryMsgById -i OFFSET-ID -s true"))
    )
    assert ours.rstrip() == theirs.rstrip()


def test_write_permission_is_wiped_and_given_back(site: Site) -> None:
    for command in ("wipeWritePerm -b BNAME", "addWritePerm -b BNAME"):
        ours = re.sub(r", \d+", "", site.ours(command))
        assert "OK" in ours
        assert ours == re.sub(r", \d+", "", site.apaches(command))


def test_a_queue_is_allocated_to_each_address(site: Site) -> None:
    ours = json.loads(site.ours("allocateMQ -t TOPIC -i 10.0.0.1,10.0.0.2"))
    theirs = json.loads(site.apaches("allocateMQ -t TOPIC -i 10.0.0.1,10.0.0.2"))
    assert {key: len(queues) for key, queues in ours["result"].items()} == {"10.0.0.1": 1, "10.0.0.2": 1}
    assert ours["result"].keys() == theirs["result"].keys()


def test_exports(site: Site, tmp_path: Path) -> None:
    for command in ("exportMetadata", "exportConfigs", "exportMetrics", "exportMetadata -t", "exportMetadata -g"):
        shapes = []
        for who, tool in (("ours", site.ours), ("theirs", site.apaches)):
            folder = tmp_path / (who + command.replace(" ", ""))
            folder.mkdir()
            assert "success" in tool(f"{command} -c DefaultCluster -f {folder}")
            [file] = folder.rglob("*.json")
            shapes.append((file.name, shape(json.loads(file.read_text()))))
        assert shapes[0] == shapes[1]


def shape(value: object) -> object:
    """The members of an export, without those that are names of things."""
    if not isinstance(value, dict):
        return type(value).__name__
    things = ("scheduleMessageOffset", "commitLogDiskRatio_")
    if value and all(isinstance(item, dict) for item in value.values()) and len(value) > 4:
        return [shape(next(iter(value.values())))]
    return {key: shape(item) for key, item in value.items() if not key.startswith(things)}


def test_a_subcommand_that_goes_on_for_ever_prints_each_round(site: Site) -> None:
    for words, wanted in (
        (("clusterRT", "-a", "1", "-i", "0"), r"DefaultCluster +\S+ +NaN +1 +0"),
        (("startMonitoring",), r"\[MONITOR\] endRound"),
    ):
        command = find(words[0])
        assert command is not None
        out = Until(wanted)
        with redirect_stdout(out), pytest.raises(Seen):
            asyncio.run(
                execute(command, parse(command.flags(), [*words[1:]]), ClientOptions(name_servers=site.namesrv))
            )


class Seen(Exception):
    """What was waited for was printed."""


class Until(io.StringIO):
    """An output that breaks when it has what was waited for."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self._wanted = wanted

    def write(self, text: str) -> int:
        count = super().write(text)
        if re.search(self._wanted, self.getvalue()):
            raise Seen
        return count


def test_an_option_of_name_servers_is_changed(site: Site) -> None:
    for value in ("true", "false"):
        command = f"updateNamesrvConfig -k orderMessageEnable -v {value}"
        assert site.ours(command) == site.apaches(command)
        assert re.search(rf"orderMessageEnable *= *{value}", site.ours("getNamesrvConfig"))


def test_every_subcommand_is_run() -> None:
    run = {
        command.split()[0]
        for command in (*EXACTLY, *ROWS, *OFFSETS, *(one for part in CHANGES.values() for one in part))
    }
    run |= {"updateAclConfig", "deleteAclConfig", "updateGlobalWhiteAddr", "producerConnection", "sendMessage"}
    run |= {
        "checkMsgSendRT",
        "sendMsgStatus",
        "wipeWritePerm",
        "addWritePerm",
        "allocateMQ",
        "clusterRT",
        "queryMsgTraceById",
    }
    run |= {"exportMetadata", "exportConfigs", "exportMetrics", "startMonitoring", "updateNamesrvConfig"}
    run |= {"clusterAclConfigVersion", "getAclConfig", "queryMsgTraceById"}
    assert {command.name for command in SUBCOMMANDS} == run
    assert len(SUBCOMMANDS) == 57
