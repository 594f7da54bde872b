"""The pipelines, through the command line where they have one."""

import io
import json
import shutil
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from ariane import Admin, Producer, PushConsumer
from ariane.cli.pipelines.command import LATE, app
from ariane.cli.pipelines.tables import SHOWN, print_answers, print_table
from ariane.client.consumer.options import ConsumeFrom
from ariane.env import Env, SystemClock
from ariane.errors import ArianeError, ConfigError
from ariane.message import Message, MessageQueue, dead_letter_topic
from ariane.protocol.codes import RequestCode
from ariane.spark import cluster as spark_cluster
from ariane.spark.access import Access
from ariane.spark.broker_connection import BrokerConnection
from ariane.spark.pipelines.analyse import Answers, Questions, analyse
from ariane.spark.pipelines.archive import Archive, archived_offsets, read_archive, start_archive
from ariane.spark.pipelines.compaction import PLAN, compact
from ariane.spark.pipelines.expiry import Retention
from ariane.spark.pipelines.folders import Folder
from ariane.spark.pipelines.origin import Stores, Topics, batch
from ariane.spark.pipelines.replay import REPLAY_OF
from ariane.spark.pipelines.report import page
from ariane.spark.pipelines.trace import summary
from ariane.testing.cluster import Cluster
from tests.cluster import running_cluster
from tests.peers import unique
from tests.spark.clusters import Target, await_that, now_ms, numbered
from tests.spark.conftest import RecordedStore


def run(*arguments: Any, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def archived(spark: Any, path: Path) -> Counter[int]:
    return Counter(int(row.keys[1:]) for row in read_archive(spark, str(path)).select("keys").collect())


def test_an_archive_has_each_message_once_and_goes_on(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic, path = ours.topic(), tmp_path / "archive"
    messages = numbered(topic, 400)
    ours.send(topic, messages[:200])
    assert "200 messages archived" in run("archive", path, "-n", ours.namesrv, "-t", topic).output
    late = run("archive", path, "-n", ours.namesrv, "-t", topic, "--before-expiry", 1)
    assert "nothing expires within 1 h" in late.output
    ours.send(topic, messages[200:])
    late = run("archive", path, "-n", ours.namesrv, "-t", topic, "--before-expiry", 1, "--retention", 0.5, code=LATE)
    assert "50 messages not archived" in late.output
    run("archive", path, "-n", ours.namesrv, "-t", topic)
    assert archived(spark, path) == Counter(range(400))
    row = read_archive(spark, str(path)).first()
    assert row.hour == row.storeTimestamp.strftime("%Y-%m-%d-%H")
    for name in path.joinpath("_ariane/checkpoint/commits").glob("*1*"):
        name.unlink()  # the driver died before the last batch was done
    assert sum(archived_offsets(spark, str(path))[topic]["broker-a"].values()) == 200
    assert compact(spark, str(path), files=1) == 1  # of the first batch alone
    run("archive", path, "-n", ours.namesrv, "-t", topic)
    assert archived(spark, path) == Counter(range(400))
    (folder,) = path.glob("topic=*/hour=*")
    assert len(list(folder.glob("*.parquet"))) > 1
    run("archive", path, "-n", ours.namesrv, "-t", topic, "--compact")
    compact(spark, str(path), files=2)
    assert len(list(folder.glob("*.parquet"))) == 1
    assert archived(spark, path) == Counter(range(400))


def test_topics_by_a_pattern_are_archived_and_watched(spark: Any, ours: Target, tmp_path: Path) -> None:
    path, prefix = tmp_path / "archive", unique("pattern")
    arguments = ["archive", path, "-n", ours.namesrv, "--pattern", f"{prefix}-.*"]
    assert "nothing to look at" in str(run(*arguments, "--before-expiry", 1, code=1).exception)
    for name in ("one", "two"):
        topic = ours.topic(queues=1, name=f"{prefix}-{name}")
        ours.send(topic, numbered(topic, 10), queue_ids=(0,))
    assert "20 messages archived" in run(*arguments).output
    assert {row.topic for row in read_archive(spark, str(path)).collect()} == {f"{prefix}-one", f"{prefix}-two"}
    assert "nothing expires" in run(*arguments, "--before-expiry", 1).output
    ours.send(topic, numbered(topic, 5), queue_ids=(0,))
    late = run(*arguments, "--before-expiry", 100, code=LATE).output  # the broker says that it keeps them for 72 h
    assert "5 messages not archived, 72.0 h left" in late
    with Admin(name_servers=ours.namesrv) as admin:
        (address,) = admin.masters()
    connection = BrokerConnection(address, Access((ours.namesrv,)), 5)
    try:
        connection.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"fileReservedTime=200\n")
        assert "200.0 h left" in run(*arguments, "--before-expiry", 100).output
    finally:
        connection.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"fileReservedTime=72\n")
        connection.close()


def test_a_broker_that_does_not_say_how_long_it_keeps_messages_is_named(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        cluster.start_broker()
        access = Access((cluster.namesrv,))
        with spark_cluster.Cluster(access) as known:
            known.find_brokers()
            cluster.stop_broker()
            retention = Retention(access, known, None)
            assert retention.of("broker-a") == 72
            assert retention.silent.keys() == {"broker-a"}
            assert Retention(access, known, 5.0).of("broker-a") == 5


def test_only_the_first_batch_of_a_run_looks_for_files_of_an_earlier_try(
    spark: Any, ours: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, path = ours.topic(queues=1), tmp_path / "archive"
    ours.send(topic, numbered(topic, 30), queue_ids=(0,))
    walks: list[str] = []
    walk = Folder.walk
    monkeypatch.setattr(Folder, "walk", lambda self, name="": (walks.append(name), walk(self, name))[1])
    archive = Archive(str(path), max_per_trigger=10)
    start_archive(spark, Topics(ours.namesrv, topic), archive).awaitTermination()
    assert walks.count("") == 1
    assert sum(name.endswith("staging") for name in walks) == 3  # batches
    assert archived(spark, path) == Counter(range(30))


def test_hours_are_utc_and_topics_are_text(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic, path = ours.topic(queues=1, name=f"00{now_ms()}"), tmp_path / "archive"
    ours.send(topic, numbered(topic, 3), queue_ids=(0,))
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        run("archive", path, "-n", ours.namesrv, "-t", topic)
        rows = read_archive(spark, str(path)).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert {row.topic for row in rows} == {topic}
    hours = {datetime.fromtimestamp(message.store_time / 1000, UTC) for message in ours.received(topic)}
    assert {row.hour for row in rows} == {hour.strftime("%Y-%m-%d-%H") for hour in hours}


def test_a_compaction_that_was_interrupted_is_carried_out(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic, path = ours.topic(queues=2), tmp_path / "archive"
    ours.send(topic, numbered(topic, 20), queue_ids=(0, 1))
    run("archive", path, "-n", ours.namesrv, "-t", topic)
    folder = Folder(spark, str(path))
    (place,) = path.glob("topic=*/hour=*")
    small = [str(file.relative_to(path)) for file in place.glob("*.parquet")]
    spark.read.parquet(str(place)).coalesce(1).write.parquet(str(path / "_ariane/merged"))
    (merged,) = (path / "_ariane/merged").glob("*.parquet")
    moves = {str(merged.relative_to(path)): f"{place.relative_to(path)}/compacted-{merged.name}"}
    folder.write_json(PLAN, {"moves": moves, "removes": small})
    folder.remove(small[0])  # and here the power went
    compact(spark, str(path))
    assert archived(spark, path) == Counter(range(20))


def test_a_store_is_archived_and_a_file_is_only_called_so_when_it_is(
    spark: Any, clean_store: RecordedStore, tmp_path: Path
) -> None:
    path = tmp_path / "archive"
    output = run("archive", path, "--store", clean_store.path).output
    assert f"{len(clean_store.messages)} messages archived" in output
    lines = [line.split("  ") for line in output.splitlines() if "commitlog" in line]
    assert [words[-1] for words in lines] == ["archived", "not archived, 0 bytes missing"]  # the second is written to
    ids = Counter(row.physicalOffset for row in read_archive(spark, str(path)).select("physicalOffset").collect())
    assert ids == Counter(message["commitLogOffset"] for message in clean_store.messages)


def test_no_file_is_called_archived_when_a_run_left_messages_out(
    spark: Any, clean_store: RecordedStore, tmp_path: Path
) -> None:
    path = tmp_path / "archive"
    for arguments in (["--pattern", "Fix.*"], []):  # the second run goes on behind the first
        output = run("archive", path, "--store", clean_store.path, *arguments).output
        words = {line.split("  ")[-1] for line in output.splitlines() if "commitlog" in line}
        assert words == {"not archived: messages were left out by topicPattern=Fix.*"}
    assert {row.topic[:3] for row in read_archive(spark, str(path)).collect()} == {"Fix"}


def test_whatever_may_leave_messages_of_a_store_out_is_a_filter() -> None:
    assert Stores("/store", options={"failOnDataLoss": "true", "checkCrc": "true"}).filters() == []
    assert Stores("/store", "orders").filters() == ["topic=orders"]
    assert Stores("/store", pattern="o.*").filters() == ["topicPattern=o.*"]
    for one in ("startingTimestamp=5", "ENDINGTIMESTAMP=5", "topic=orders", "failOnDataLoss=false"):
        assert Stores("/store", options=dict([one.split("=")])).filters() == [one]


def test_a_delta_table_without_delta_and_a_wrong_option_are_errors_in_a_line(
    spark: Any, ours: Target, tmp_path: Path
) -> None:
    topic = ours.topic(queues=1)
    arguments = ["archive", tmp_path / "archive", "-n", ours.namesrv, "-t", topic]
    wrong = {
        "needs Delta's jar, and this Spark": [*arguments, "--delta"],
        "rocketmq has no option pullbatch;": [*arguments, "--option", "pullBatch=3"],
        "no name server answered": ["analyse", "-n", "127.0.0.1:1", "-t", topic],
        "no route to topic NoSuchTopic": ["analyse", "-n", ours.namesrv, "-t", "NoSuchTopic"],
    }
    for said, command in wrong.items():
        error = run(*command, code=1).exception
        assert isinstance(error, ArianeError)
        assert said in str(error)
        assert "\n" not in str(error)


def test_a_replay_repeats_messages_in_order_with_their_properties(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic, target, path = ours.topic(queues=2), ours.topic(queues=2), tmp_path / "archive"
    ours.send(topic, numbered(topic, 200), queue_ids=(0, 1))
    run("archive", path, "-n", ours.namesrv, "-t", topic)
    assert "200 messages replayed" in run("replay", path, topic, target, "-n", ours.namesrv, "--rate", 5000).output
    assert "0 messages replayed" in run("replay", path, topic, target, "-n", ours.namesrv).output  # it is done
    originals = {message.message_id: message for message in ours.received(topic)}
    places: dict[int, tuple[int, int]] = {}
    for message in ours.received(target):
        original = originals[message.properties[REPLAY_OF]]
        assert (message.body, message.tags, message.keys) == (original.body, original.tags, original.keys)
        assert message.properties["n"] == original.properties["n"]
        queue, last = places.get(original.queue.queue_id, (message.queue.queue_id, -1))
        assert queue == message.queue.queue_id
        assert last < original.queue_offset
        places[original.queue.queue_id] = (queue, original.queue_offset)
    assert len(ours.received(target)) == 200


def test_a_lost_cluster_is_replaced_from_its_archive(spark: Any, tmp_path: Path) -> None:
    """The runbook of a disaster: archive, loss of everything, an empty cluster, a replay, and consumers that go on."""
    path, lost = tmp_path / "archive", tmp_path / "lost"
    with Cluster(lost) as cluster:
        before = Target(cluster.name_servers, "ours")
        before.send(before.topic(name="orders"), numbered("orders", 200))
        run("archive", path, "-n", cluster.name_servers, "-t", "orders")
    shutil.rmtree(lost)
    with Cluster(tmp_path / "new") as cluster:
        after = Target(cluster.name_servers, "ours")
        after.topic(name="orders")
        recent = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S")
        run("replay", path, "orders", "orders", "-n", cluster.name_servers, "--start", recent, "--exactly-once")
        assert Counter(int(message.properties["n"]) for message in after.received("orders")) == Counter(range(200))


def test_an_analysis_counts_measures_and_draws(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic, results = ours.topic(), ours.topic()
    bodies = [json.dumps({"amount": i, "city": "Rome" if i % 2 else None}) for i in range(300)]
    ours.send(
        topic, [Message(topic, body.encode(), tags=f"T{i % 3}", keys=["k1", "k2"]) for i, body in enumerate(bodies)]
    )
    answers = analyse(
        batch(spark, Topics(ours.namesrv, topic)), Questions(body_schema="amount int, city string", top=2)
    )
    assert (answers.totals["messages"], answers.totals["queues"], answers.totals["late"]) == (300, 4, 0)
    assert answers.totals["bytes"] == sum(map(len, bodies))
    assert sum(window["messages"] for window in answers.tables["windows"]) == 300
    assert sum(step["messages"] for step in answers.tables["latencies"]) == 300
    assert answers.tables["top keys"] == [{"value": "k1", "count": 300}, {"value": "k2", "count": 300}]
    assert answers.tables["top tags"] == [{"value": "T0", "count": 100}, {"value": "T1", "count": 100}]
    assert answers.tables["top producers"] == [{"value": "127.0.0.1", "count": 300}]
    amount, city = answers.tables["fields"]
    assert (amount["present"], amount["min"], amount["max"], amount["mean"]) == (300, "0", "299", 149.5)
    assert (city["missing"], city["min"]) == (150, "Rome")
    html = page(answers, "<orders>")
    assert "&lt;orders&gt;" in html
    assert html.count("<svg") == 7
    report, table = tmp_path / "report.html", tmp_path / "windows"
    asked = ["--body-schema", "amount int, city string, more map<string,string>"]
    arguments = ["--html", report, "--parquet", table, "--to-topic", results, *asked]
    output = run("analyse", "-n", ours.namesrv, "-t", topic, *arguments).output.splitlines()
    assert "<svg" in report.read_text()
    windows = spark.read.parquet(str(table)).collect()
    assert sum(row.messages for row in windows) == 300
    assert sum(row.fields.city.present for row in windows) == 150
    assert max(row.fields.amount.max for row in windows) == 299
    sent = [json.loads(message.body) for message in ours.received(results)]
    assert sum(window["messages"] for window in sent) == 300
    assert sum(window["fields"]["amount"]["present"] for window in sent) == 300
    for line in (
        "messages\t300",
        "windows",
        "top keys",
        "k1\t300",
        "top tags",
        "T0\t100",
        "top producers",
        "latencies",
    ):
        assert line in output
    assert "amount\t0\t300\t0\t299\t149.5" in output
    assert "more\t300\t0\t\t\t" in output
    assert sum(line.startswith(f"{topic}\t") and "+00:00" in line for line in output) == len(windows)


def test_a_screen_shows_the_last_windows_and_says_that_there_are_more() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=100, highlight=False)
    windows = [{"topic": "orders", "messages": 1000 + i} for i in range(SHOWN + 2)]
    print_answers(screen, Answers(Questions(), {"messages": 7}, {"windows": windows, "top keys": []}))
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "2 earlier rows of windows are not shown" in shown
    assert "1001" not in shown
    assert shown.count("orders") == SHOWN


def test_times_are_printed_in_utc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        print_table(Console(file=io.StringIO()), ["since"], [[datetime(2026, 1, 1, 9)]])
    time.tzset()
    assert capsys.readouterr().out == "since\n2026-01-01 00:00:00+00:00\n"


class AnHourAgo(SystemClock):
    """The clock of a sender that keeps messages for an hour."""

    def now_ms(self) -> int:
        return super().now_ms() - 3_600_000


def test_a_message_that_comes_later_than_the_watermark_waits_is_counted_as_late(
    spark: Any, ours: Target, tmp_path: Path
) -> None:
    topic = ours.topic(queues=1)
    ours.send(topic, numbered(topic, 9), queue_ids=(0,))
    with Producer(unique("producer"), name_servers=ours.namesrv, env=Env(clock=AnHourAgo())) as producer:
        producer.send(Message(topic, b"late"))
    waits = {watermark: _late(spark, ours, topic, watermark) for watermark in ("10 minutes", "2 hours")}
    assert waits == {"10 minutes": [1], "2 hours": []}
    folders = ["--parquet", tmp_path / "windows", "--checkpoint", tmp_path / "checkpoint"]
    told = run("analyse", "-n", ours.namesrv, "-t", topic, *folders).output
    assert "10 messages counted, 1 of them late" in told


def _late(spark: Any, ours: Target, topic: str, watermark: str) -> list[int]:
    """How many were late in the windows that have late ones."""
    answers = analyse(batch(spark, Topics(ours.namesrv, topic)), Questions("10 minutes", watermark))
    assert answers.totals["late"] == sum(window["late"] for window in answers.tables["windows"])
    return [window["late"] for window in answers.tables["windows"] if window["late"]]


def test_an_analysis_of_a_store_or_an_archive_counts_queues(
    spark: Any, clean_store: RecordedStore, tmp_path: Path
) -> None:
    queues = {(message["topic"], message["queueId"]) for message in clean_store.messages}
    output = run("analyse", "--store", clean_store.path).output.splitlines()
    assert f"messages\t{len(clean_store.messages)}" in output
    assert f"queues\t{len(queues)}" in output
    run("archive", tmp_path / "archive", "--store", clean_store.path)
    (topic, _), *_ = sorted(queues)
    output = run("analyse", "--archive", tmp_path / "archive", "-t", topic).output.splitlines()
    assert f"messages\t{sum(message['topic'] == topic for message in clean_store.messages)}" in output
    assert f"queues\t{sum(queue[0] == topic for queue in queues)}" in output


def test_lag_is_told_in_messages_and_time(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic, group = ours.topic(queues=1), unique("group")
    ours.send(topic, numbered(topic, 10), queue_ids=(0,))
    with Admin(name_servers=ours.namesrv) as admin:
        admin.commit(group, MessageQueue(topic, "broker-a", 0), 4)
    run("lag", "-n", ours.namesrv, "-g", group, "-t", topic, "--parquet", tmp_path / "lag")
    (row,) = spark.read.parquet(str(tmp_path / "lag")).collect()
    assert (row.group, row.committed, row.end, row.lag) == (group, 4, 10, 6)
    assert row.behindMs > 0


def test_the_lag_of_an_unknown_group_is_an_error(spark: Any, ours: Target) -> None:
    topic = ours.topic(queues=1)
    ours.send(topic, numbered(topic, 10), queue_ids=(0,))
    said = run("lag", "-n", ours.namesrv, "-g", "typo", "-t", topic, code=1).exception
    assert isinstance(said, ConfigError)
    assert "no broker has an offset of group 'typo'" in str(said)


def test_lag_over_time_is_appended_to_a_table(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic, group, table = ours.topic(queues=1), unique("group"), tmp_path / "lag"
    ours.send(topic, numbered(topic, 10), queue_ids=(0,))
    with Admin(name_servers=ours.namesrv) as admin:
        for committed in (4, 9):
            admin.commit(group, MessageQueue(topic, "broker-a", 0), committed)
            every = ["--every", 0.01, "--samples", 2, "--parquet", table]
            output = run("lag", "-n", ours.namesrv, "-g", group, "-t", topic, *every).output
            assert output.count(f"{topic}\tbroker-a\t0\t{committed}\t10\t{10 - committed}\t") == 2
    rows = spark.read.parquet(str(table)).orderBy("at").collect()
    assert [row.lag for row in rows] == [6, 6, 1, 1]
    assert len({row.at for row in rows}) == 4


def test_dead_letters_of_a_running_cluster_are_told(spark: Any, ours: Target) -> None:
    topic, group = ours.topic(queues=1), unique("group")
    ours.send(topic, [Message(topic, b"hopeless", tags="T", keys="k1")] * 3, queue_ids=(0,))

    def fail(_: object) -> None:
        raise ValueError("not today")

    def told(*which: str) -> list[list[str]]:
        lines = [line.split("\t") for line in run("dlq", "-n", ours.namesrv, *which).output.splitlines()]
        return [line for line in lines if line[0] == group]

    options = {"name_servers": ours.namesrv, "consume_from": ConsumeFrom.FIRST, "max_reconsume_times": 0}
    with PushConsumer(group, topic, fail, **options), Admin(name_servers=ours.namesrv) as admin:
        await_that("dead letters", lambda: _dead_letters(admin, group) == 3)
    for which in (["-g", group], []):
        ((_, origin, tag, count, *_, samples),) = told(*which)
        assert (origin, tag, count) == (topic, "T", "3")
        assert samples.count("hopeless") == 3
    assert told("-g", unique("group")) == []  # a group of which nothing failed


def _dead_letters(admin: Admin, group: str) -> int:
    topic = dead_letter_topic(group)
    if topic not in admin.topics():
        return 0
    return sum(offsets.max_offset for offsets in admin.topic_stats(topic).offset_table.values())


def test_dead_letters_are_told_by_origin_with_samples(spark: Any, clean_store: RecordedStore) -> None:
    output = run("dlq", "--store", clean_store.path, "--samples", 2).output
    assert "FixGroupRetry" in output
    assert "FixRetry" in output
    assert output.count("reconsumeTimes=3") == 2


def test_traces_show_latencies_retries_and_success(spark: Any, apache: Target, java: Any) -> None:
    topic = apache.topic(queues=1)
    script = {"fail": 1}
    with (
        java.push_consumer(apache.namesrv, topic, trace=True, script=script, consumeFromWhere=FIRST) as consumer,
        Producer(unique("producer"), name_servers=apache.namesrv, trace=True) as producer,
    ):
        for i in range(5):
            producer.send(Message(topic, b"%d" % i))
        consumer.await_messages(10)

    def told() -> Any:
        traces = summary(batch(spark, Topics(apache.namesrv, "RMQ_SYS_TRACE_TOPIC")))
        rows = traces.where(f"topic = '{topic}'").collect()
        return rows[0] if rows and rows[0].deliveries == 10 else None

    row = await_that("all traces", told)
    assert (row.messages, row.most_retries, row.success_rate) == (5, 1, 0.5)
    assert 0 <= row.send_to_consume_ms_p50 <= row.send_to_consume_ms_p99
    assert f"{topic}\t" in run("trace", "-n", apache.namesrv).output


FIRST = "CONSUME_FROM_FIRST_OFFSET"


@pytest.mark.parametrize("name", ["archive", "replay", "analyse", "lag", "dlq", "trace", "settle"])
def test_every_pipeline_explains_itself(name: str) -> None:
    assert "Usage" in run(name, "--help").output
