"""The grouped commands, run against our cluster and Apache's."""

import asyncio
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ariane import ConsumeFrom, ConsumeStatus, Message, SubscriptionGroupConfig, TransactionState, aio
from ariane.cli.app import app
from ariane.errors import ArianeError
from tests.client.conftest import Site
from tests.client.inbox import Inbox
from tests.peers import unique, until


class Shell:
    """Runs `ariane` in this process against one cluster."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv

    def __call__(self, *words: str, stdin: str = "") -> str:
        """What a command prints; it must end well."""
        text, code = self.result(*words, stdin=stdin)
        assert code == 0, text
        return text

    def result(self, *words: str, stdin: str = "") -> tuple[str, int]:
        done = CliRunner().invoke(app, list(words), input=stdin, env={"NAMESRV_ADDR": self.namesrv})
        if isinstance(done.exception, ArianeError):
            return f"{done.output}{done.exception}", 1
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        if done.exception is not None and isinstance(done.exception.code, str):
            return f"{done.output}{done.exception.code}", 1
        return done.stdout if done.exit_code == 0 else done.output, done.exit_code

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def ariane(site: Site) -> Shell:
    """`ariane`, for each of the clusters."""
    return Shell(site.name_servers)


@pytest.fixture
def topic(ariane: Shell) -> str:
    """A topic with four queues."""
    name = unique("topic")
    ariane("topic", "create", name, "--queues", "4")
    until(lambda: ariane.result("topic", "route", name)[1] == 0, 60, "the route")
    return name


def consume(namesrv: str, group: str, topic: str, count: int) -> None:
    """Consume so many messages of a topic and commit that."""

    async def consuming() -> None:
        inbox = Inbox()
        async with aio.PushConsumer(group, topic, inbox, consume_from=ConsumeFrom.FIRST, name_servers=namesrv):
            await inbox.arrived(count)

    asyncio.run(consuming())


def test_a_topic_from_its_creation_to_its_end(ariane: Shell, topic: str) -> None:
    assert topic in ariane("topic", "list").splitlines()
    assert topic in ariane.json("topic", "list")
    assert "TBW102" not in ariane.json("topic", "list")
    assert "TBW102" in ariane.json("topic", "list", "--all")
    [grown] = ariane.json("topic", "grow", topic, "6")
    assert (grown["before"], grown["after"]) == (4, 6)
    until(lambda: len(ariane.json("topic", "describe", topic)["queues"]) == 6, 60, "six queues")
    assert "messages  0" in ariane("topic", "describe", topic)
    assert ariane.json("topic", "route", topic)["queueDatas"][0]["readQueueNums"] == 6
    text, code = ariane.result("topic", "delete", topic)
    assert (code, "--yes" in text) == (1, True)
    assert "deleted" in ariane("topic", "delete", topic, "--yes")
    assert ariane.result("topic", "delete", topic, "--yes")[1] == 1


def test_a_message_is_sent_found_tracked_and_sent_again(ariane: Shell, topic: str) -> None:
    group, key = unique("group"), unique("key")
    sent = ariane.json("message", "send", topic, "paid", "--keys", key, "--tags", "TagA", "--property", "shop=7")
    until(lambda: ariane.json("message", "find", topic, "--key", key), 60, "the index")
    [found] = ariane.json("message", "find", topic, "--key", key)
    assert (found["body"], found["tags"], found["properties"]["shop"]) == ("paid", "TagA", "7")
    assert ariane.json("message", "get", found["offset_id"])["message_id"] == sent["message_id"]
    assert ariane("message", "get", sent["message_id"], "-t", topic, "--body") == "paid"
    assert key in ariane("message", "get", found["offset_id"])
    place = f"{sent['queue']['broker_name']}:{sent['queue']['queue_id']}:{sent['queue_offset']}"
    assert [one["body"] for one in ariane.json("message", "find", topic, "--at", place)] == ["paid"]
    assert [one["body"] for one in ariane.json("message", "find", topic, "--since", "1h")] == ["paid"]
    consume(ariane.namesrv, group, topic, 1)
    tracked = ("message", "track", topic, sent["message_id"])
    until(lambda: group in [one["group"] for one in ariane.json(*tracked)], 60, "the group's offset")
    assert "NOT_ONLINE" in ariane("message", "track", topic, sent["message_id"])
    assert "SEND_OK" in ariane("message", "resend", topic, sent["message_id"], "--yes")
    until(lambda: len(ariane.json("message", "find", topic, "--key", key)) == 2, 60, "the second one")
    assert "no message" in ariane.result("message", "get", "0" * 32, "-t", topic)[0]


def test_lag_is_shown_and_offsets_are_moved(ariane: Shell, topic: str) -> None:
    group, clone = unique("group"), unique("clone")
    for number in range(3):
        ariane("message", "send", topic, str(number))
    consume(ariane.namesrv, group, topic, 3)
    until(lambda: ariane.json("group", "lag", group, topic)["lag"] == 0, 60, "no lag")
    plan = ariane.json("offset", "reset", group, topic, "--to", "earliest", "--dry-run")
    assert sum(one["before"] - one["after"] for one in plan) == 3
    assert ariane.json("group", "lag", group, topic)["lag"] == 0
    assert "--yes" in ariane.result("offset", "reset", group, topic, "--to", "earliest")[0]
    ariane("group", "reset", group, topic, "--to", "earliest", "--yes")
    found = ariane.json("group", "lag", group, topic)
    assert (found["lag"], found["abandoned"]) == (3, True)
    assert found["behind_ms"] > 0
    assert "no consumer online" in ariane("group", "list", "--abandoned")
    assert ariane.result("group", "lag", group, topic, "--max-lag", "2")[1] == 3
    assert ariane.result("group", "lag", group, topic, "--max-lag", "3")[1] == 0
    ariane("offset", "clone", group, clone, topic, "--yes")
    assert ariane.json("group", "lag", clone, topic)["lag"] == 3
    ariane("offset", "skip", group, topic, "--yes")
    assert "0 messages wait" in ariane("group", "lag", group, topic)
    assert ariane.json("group", "lag", clone, topic)["lag"] == 3
    assert ariane.json("group", "clients", group) == []
    assert "no consumer is online" in ariane("group", "describe", group)
    ariane("group", "delete", group, "--offsets", "--yes")
    assert ariane.result("group", "describe", group)[1] == 1
    assert ariane.result("offset", "reset", group, topic, "--to", "yesterday")[1] == 1


def test_dead_letters_are_listed_exported_and_sent_again(
    ariane: Shell, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    group = unique("group")

    async def fail() -> None:
        async with aio.Admin(name_servers=ariane.namesrv) as admin:
            await admin.create_group(SubscriptionGroupConfig(group, retry_max_times=0))
        options = {"consume_from": ConsumeFrom.FIRST, "max_reconsume_times": 0, "name_servers": ariane.namesrv}
        async with aio.PushConsumer(group, topic, lambda _: ConsumeStatus.RECONSUME_LATER, **options):
            await until_dead()

    async def until_dead() -> None:
        deadline = time.monotonic() + 60
        async with aio.Admin(name_servers=ariane.namesrv) as admin:
            while len(await admin.dead_letters(group)) < 3:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)

    for number in range(3):
        ariane("message", "send", topic, f'letter "{number}"', "--keys", f"k{number}")
    asyncio.run(fail())
    assert [one["count"] for one in ariane.json("dlq", "list") if one["group"] == group] == [3]
    assert [one["body"] for one in ariane.json("dlq", "show", group, "--key", "k1")] == ['letter "1"']
    assert ariane.json("dlq", "show", group, "--until", "1d") == []
    lines = ariane("dlq", "export", group).splitlines()
    assert {json.loads(line)["original_topic"] for line in lines} == {topic}
    ariane("dlq", "export", group, "letters.csv")
    rows = list(csv.DictReader(io.StringIO(Path("letters.csv").read_text())))
    assert sorted(row["body"] for row in rows) == [f'letter "{number}"' for number in range(3)]
    assert len(ariane.json("dlq", "resend", group, "--dry-run")) == 3
    assert "1 letters were sent again, 0 had" in ariane("dlq", "resend", group, rows[0]["letter_id"], "--yes")
    assert "2 letters were sent again, 1 had" in ariane("dlq", "resend", group, "--rate", "50", "--yes")
    until(lambda: len(ariane.json("message", "find", topic, "--since", "1h")) == 6, 60, "three more messages")


def test_a_transaction_is_ended_by_hand(ariane: Shell, topic: str) -> None:
    async def half(body: bytes) -> str:
        async with aio.TransactionProducer(unique("tx"), Undecided(), name_servers=ariane.namesrv) as producer:
            sent = await producer.send_half(Message(topic, body))
        return sent.message_id

    kept, dropped = asyncio.run(half(b"kept")), asyncio.run(half(b"dropped"))
    until(lambda: {kept, dropped} <= {one["message_id"] for one in ariane.json("transaction", "list")}, 60, "both")
    ariane("transaction", "commit", kept, "--yes")
    ariane("transaction", "rollback", dropped, "--yes")
    until(lambda: [one["body"] for one in ariane.json("message", "find", topic, "--since", "1h")] == ["kept"], 60, "it")
    until(lambda: not {kept, dropped} & {one["message_id"] for one in ariane.json("transaction", "list")}, 60, "ended")
    assert "no open transaction" in ariane.result("transaction", "commit", kept, "--yes")[0]


class Undecided:
    """A producer that never says what became of its transaction."""

    def execute(self, message: Message, result: object, argument: object) -> TransactionState:
        return TransactionState.UNKNOWN

    def check(self, message: object) -> TransactionState:
        return TransactionState.UNKNOWN


def test_brokers_are_shown_changed_and_drained(ariane: Shell) -> None:
    [broker] = ariane.json("cluster")
    assert broker["name"] in ariane("cluster")
    assert ariane.json("broker", "status")[0]["address"] == broker["address"]
    assert "bootTimestamp" in ariane.json("broker", "status", broker["name"])
    assert ariane.json("broker", "config", broker["name"], "defaultQueryMaxNum=31") == {"defaultQueryMaxNum": "31"}
    assert ariane.json("broker", "config", broker["address"])["defaultQueryMaxNum"] == "31"
    counts = ariane.json("broker", "drain", broker["name"], "--yes")
    assert min(counts.values()) > 0
    assert min(ariane.json("broker", "drain", broker["name"], "--undo").values()) > 0
    assert "no broker is called" in ariane.result("broker", "drain", "nobody", "--yes")[0]
    assert "no broker is called" in ariane.result("broker", "status", "nobody")[0]


def test_a_profile_names_a_cluster(ariane: Shell, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text(f'default = "test"\n[test]\nname_servers = "{ariane.namesrv}"\n[broken]\nnameservers = "x"\n')
    monkeypatch.setenv("ARIANE_PROFILES", str(file))
    shell = Shell("")
    assert topic in shell("topic", "list")
    assert topic in shell("topic", "list", "--profile", "test")
    default = Shell("127.0.0.1:9")  # neither its keys nor its name servers go where another cluster is named
    assert "cannot connect to 127.0.0.1:9" in default.result("topic", "list")[0]
    assert topic in default("topic", "list", "--profile", "test")
    assert "SEND_OK" in default("send", topic, "by profile", "--profile", "test")
    assert "by profile" in default("tail", topic, "--count", "1", "--profile", "test")
    assert "unknown key 'nameservers'" in shell.result("topic", "list", "--profile", "broken")[0]
    assert "no profile 'other'; it has broken, test" in shell.result("topic", "list", "--profile", "other")[0]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("topic", "list", "-n", "a:9876,b:9876"), "a:9876;b:9876"),
        (("send", "-n", "a:9876,b:9876", "topic", "x"), "a:9876;b:9876"),
        (("topic", "list", "-n", "http://127.0.0.1:9876"), "give 127.0.0.1:9876"),
        (("uup",), "Did you mean up?"),
        (("topik", "list"), "Did you mean topic?"),
    ],
)
def test_a_newcomers_mistake_gets_a_hint(words: tuple[str, ...], hint: str) -> None:
    text, code = Shell("127.0.0.1:9").result(*words)
    assert code != 0
    assert hint in text


def test_the_address_of_a_broker_is_told_from_a_name_servers(ariane: Shell) -> None:
    [broker] = ariane.json("cluster")
    text, code = ariane.result("topic", "list", "-n", broker["address"])
    assert code == 1
    assert "is no name server, perhaps a broker" in text


def test_every_command_has_help() -> None:
    for words in ("topic", "group", "message", "offset", "dlq", "transaction", "broker"):
        text, code = Shell("127.0.0.1:9").result(words, "-h")
        assert code == 0, text
    assert "status" in Shell("").result("broker", "status", "-h")[0]


def test_commands_load_only_what_they_need(ariane: Shell) -> None:
    """The brokers' and Spark's packages would cost more time than the command itself."""
    program = (
        "import sys; sys.argv = ['ariane', 'cluster', '--json']\n"
        "from ariane.cli import main\n"
        "try:\n    main()\nfinally:\n    print(sorted(m for m in sys.modules if m in HEAVY), file=sys.stderr)\n"
    ).replace("HEAVY", "('ariane.broker.server', 'ariane.store', 'sqlalchemy', 'pyspark', 'numpy')")
    env = os.environ | {"NAMESRV_ADDR": ariane.namesrv}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr.strip() == "[]"
    assert json.loads(done.stdout)


def test_a_shell_completes_commands_and_the_subcommands_of_mqadmin() -> None:
    def complete(line: str) -> str:
        env = {"_ARIANE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
        return CliRunner().invoke(app, [], prog_name="ariane", env=env).output

    assert "cluster" in complete("ariane clu")
    assert "describe" in complete("ariane topic d")
    assert "topicStatus" in complete("ariane admin topicS")


def test_a_watched_cluster_is_shown_again_until_it_is_interrupted(ariane: Shell) -> None:
    command = [sys.executable, "-c", "from ariane.cli import main; main()", "cluster", "--json", "--watch", "0.2"]
    env = os.environ | {"NAMESRV_ADDR": ariane.namesrv}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        documents = [line for _, line in zip(range(5), watching.stdout, strict=False) if line.strip()]
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=60)
    assert len(documents) >= 2
    assert all(json.loads(line)[0]["error"] is None for line in documents)
    assert watching.returncode == 130, errors
    assert "Traceback" not in errors
