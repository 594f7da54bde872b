"""Pipelines as they run: what they show meanwhile, and how they go on after an end or an interruption."""

import io
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console
from rich.progress import Progress

from ariane import Admin
from ariane.cli.pipelines import command as pipeline
from ariane.cli.pipelines.command import SIGNALLED
from ariane.cli.pipelines.display import SparkTasks
from ariane.message import Message, MessageQueue
from ariane.spark.pipelines import replay
from ariane.spark.pipelines.archive import archived_offsets
from ariane.spark.pipelines.folders import Folder
from ariane.spark.pipelines.replay import REPLAY_OF, Replay, run_replay, shares
from ariane.spark.pipelines.replay_state import State
from ariane.spark.sink.options import SinkOptions
from ariane.spark.sink.rows import RowKeys, rows_of
from ariane.spark.sink.sender import SinkSender
from tests.peers import unique
from tests.spark.clusters import Target, WaitingCluster, await_that, now_ms, numbered
from tests.spark.conftest import RecordedStore
from tests.spark.test_pipelines import archived, run


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal would be sent beside the results."""
    sent = io.StringIO()
    monkeypatch.setattr(pipeline, "err", Console(file=sent, force_terminal=True, width=200))
    return sent


def test_archive_replay_and_analysis_show_how_far_they_are(
    spark: Any, ours: Target, tmp_path: Path, screen: io.StringIO
) -> None:
    topic, target, path = ours.topic(queues=1), ours.topic(queues=1), tmp_path / "archive"
    ours.send(topic, numbered(topic, 50), queue_ids=(0,))
    run("archive", path, "-n", ours.namesrv, "-t", topic)
    assert "archive: 50 messages" in screen.getvalue()
    run("replay", path, topic, target, "-n", ours.namesrv)
    assert "done, 50 messages" in screen.getvalue()
    run("analyse", "-n", ours.namesrv, "-t", topic)
    assert "analyse" in screen.getvalue()


def test_reports_show_that_they_work(
    spark: Any, ours: Target, clean_store: RecordedStore, screen: io.StringIO, tmp_path: Path
) -> None:
    topic, group = ours.topic(queues=1), unique("group")
    with Admin(name_servers=ours.namesrv) as admin:
        admin.commit(group, MessageQueue(topic, "broker-a", 0), 0)
    run("lag", "-g", group, "-t", topic, "-n", ours.namesrv)
    assert "lag, sample 1 of 1" in screen.getvalue()
    run("dlq", "--store", clean_store.path)
    assert "dlq" in screen.getvalue()
    run("trace", "-n", ours.namesrv, "-t", topic, "--parquet", tmp_path / "deliveries")
    assert "trace to Parquet" in screen.getvalue()


def test_tasks_of_running_stages_are_counted(spark: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    column = SparkTasks(spark)
    progress = Progress()
    progress.add_task("some work")
    (task,) = progress.tasks
    await_that("the end of what other tests left", lambda: column.render(task).plain == "")
    job = threading.Thread(target=lambda: spark.sparkContext.parallelize(range(3), 3).foreach(_await_file(str(gate))))
    job.start()
    try:
        await_that("three tasks", lambda: column.render(task).plain == "0 of 3 tasks")
    finally:
        gate.touch()
        job.join()
    await_that("no tasks", lambda: column.render(task).plain == "")


def _await_file(path: str) -> Any:
    def wait(_: int) -> None:
        import os
        import threading

        while not os.path.exists(path):
            threading.Event().wait(0.02)

    return wait


def test_a_replay_that_was_interrupted_sends_the_hours_that_are_left(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic, target, path = ours.topic(queues=1), ours.topic(queues=1), tmp_path / "archive"
    messages = numbered(topic, 60)
    for part in (messages[:20], messages[20:]):
        ours.send(topic, part, queue_ids=(0,))
        run("archive", path, "-n", ours.namesrv, "-t", topic)
    first = next(file for file in sorted(path.glob("topic=*/hour=*/*.parquet")) if _rows(spark, file) == 20)
    earlier = first.parent.with_name("hour=2020-01-01-00")
    earlier.mkdir()
    first.rename(earlier / first.name)
    plan = Replay(str(path), topic, target, ours.namesrv, str(tmp_path / "state"))
    hours = run_replay(spark, plan)
    assert next(hours) == ("2020-01-01-00", 20)
    hours.close()  # nobody waited for the rest
    again = run("replay", path, topic, target, "-n", ours.namesrv, "--state", tmp_path / "state")
    assert "40 messages replayed" in again.output
    copies = Counter(message.properties[REPLAY_OF] for message in ours.received(target))
    assert copies == Counter(message.message_id for message in ours.received(topic))


@pytest.fixture
def no_death() -> Iterator[None]:
    """A signal that nobody handles is an error of the test, and not its end."""

    def fail(number: int, _: object) -> None:
        raise AssertionError(f"nobody handled signal {number}")

    before = {number: signal.signal(number, fail) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    assert all(signal.signal(number, handler) is fail for number, handler in before.items())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_continuous_archive_goes_on_until_it_is_stopped(
    spark: Any, ours: Target, tmp_path: Path, no_death: None, number: signal.Signals
) -> None:
    topic, path = ours.topic(queues=1), tmp_path / "archive"
    messages = numbered(topic, 30)

    def send_and_stop() -> None:
        try:
            for end in (10, 20):
                ours.send(topic, messages[end - 10 : end], queue_ids=(0,))
                await_that("the archive", lambda end=end: _committed(spark, path, topic) == end)
        finally:
            os.kill(os.getpid(), number)

    with ThreadPoolExecutor(1) as helper:
        sent = helper.submit(send_and_stop)
        output = run("archive", path, "-n", ours.namesrv, "-t", topic, "--continuous").output
        sent.result()
    assert "20 messages archived" in output
    ours.send(topic, messages[20:], queue_ids=(0,))
    assert "10 messages archived" in run("archive", path, "-n", ours.namesrv, "-t", topic).output
    assert archived(spark, path) == Counter(range(30))


def _committed(spark: Any, path: Path, topic: str) -> int:
    """Up to where finished batches go."""
    found = archived_offsets(spark, str(path))
    return int(found[topic]["broker-a"]["0"]) if topic in found else 0


def test_an_archive_to_the_present_that_is_stopped_says_so(
    spark: Any, ours: Target, tmp_path: Path, no_death: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, path = ours.topic(queues=1), tmp_path / "archive"
    ours.send(topic, numbered(topic, 10), queue_ids=(0,))

    def stop(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise Crash  # in the middle of its batch

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "move", stop)
        run("archive", path, "-n", ours.namesrv, "-t", topic, code=SIGNALLED + signal.SIGTERM)
    run("archive", path, "-n", ours.namesrv, "-t", topic)
    assert archived(spark, path) == Counter(range(10))


class Crash(Exception):
    """The driver is dead."""


@pytest.mark.parametrize("moment", ["before a part is sent", "after it was sent"])
def test_a_replay_that_dies_goes_on_with_each_message_once(
    spark: Any, ours: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    topic, target, path = ours.topic(queues=2), ours.topic(queues=2), tmp_path / "archive"
    messages = numbered(topic, 60)
    command = ["replay", str(path), topic, target, "-n", ours.namesrv, "--exactly-once"]

    def grow(part: list[Message]) -> None:
        ours.send(topic, part, queue_ids=(0, 1))
        run("archive", path, "-n", ours.namesrv, "-t", topic)

    def die(*_: object) -> None:
        raise Crash

    grow(messages[:30])
    with monkeypatch.context() as patch:
        patch.setattr(*((replay, "messages") if moment.startswith("before") else (State, "done")), die)
        assert isinstance(run(*command, code=1).exception, Crash)
    assert len(ours.received(target)) == (0 if moment.startswith("before") else 30)
    grow(messages[30:])  # of the same hour
    assert "60 messages replayed" in run(*command).output  # the brokers have some of them, and are told so
    assert "0 messages replayed" in run(*command).output
    copies = Counter(message.properties[REPLAY_OF] for message in ours.received(target))
    assert copies == Counter(message.message_id for message in ours.received(topic))
    numbers: dict[int, list[int]] = {}
    for message in ours.received(target):
        numbers.setdefault(message.queue.queue_id, []).append(int(message.properties["n"]))
    assert all(part == sorted(part) for part in _by_origin(numbers))


def _by_origin(numbers: dict[int, list[int]]) -> list[list[int]]:
    """The numbers of each first queue, in the order in which they came: even ones were in the one, odd in the other."""
    return [[n for n in found if n % 2 == rest] for found in numbers.values() for rest in (0, 1)]


def test_another_topic_and_another_time_are_other_replays(spark: Any, ours: Target, tmp_path: Path) -> None:
    first, second, target, path = ours.topic(queues=1), ours.topic(queues=1), ours.topic(queues=1), tmp_path / "archive"
    for topic in (first, second):
        ours.send(topic, numbered(topic, 10), queue_ids=(0,))
    stored = max(message.store_time for topic in (first, second) for message in ours.received(topic))
    await_that("a later time", lambda: now_ms() > stored)
    middle = datetime.fromtimestamp(now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
    ours.send(first, numbered(first, 5), queue_ids=(0,))
    run("archive", path, "-n", ours.namesrv, "-t", f"{first},{second}")

    def replayed(topic: str, *more: str) -> str:
        return run("replay", path, topic, target, "-n", ours.namesrv, *more).output.split()[0]

    assert [replayed(topic) for topic in (first, second)] == ["15", "10"]
    assert [replayed(first, which, middle) for which in ("--end", "--start")] == ["10", "5"]
    assert replayed(first, "--start", middle) == "0"  # it is done
    assert len(ours.received(target)) == 40
    wrong = run("replay", path, first, target, "-n", ours.namesrv, "--start", "yesterday", code=1)
    assert "start='yesterday'" in str(wrong.exception)


@pytest.mark.parametrize(("rate", "seconds"), [(200, 10.0), (1, 2000.0), (None, 0.0)])
def test_tasks_of_a_replay_keep_to_its_rate_together(ours: Target, rate: int | None, seconds: float) -> None:
    topic = ours.topic(queues=1)
    tasks, own = shares(queues=4, cores=2, rate=rate)
    options = SinkOptions.parse({"nameServer": ours.namesrv, "topic": topic, **{k: str(v) for k, v in own.items()}})
    rows = pa.record_batch({"body": [b"x"] * (2000 // tasks)})
    took = []
    for task in range(tasks):
        with WaitingCluster(options.access) as cluster:
            sender = SinkSender(options, "replay", cluster)
            for row in rows_of(rows, RowKeys("replay", "0", task), topic):
                sender.add(row)
            sender.flush()
            sender.close()
            took.append(cluster.passed)
    assert len(ours.received(topic)) == 2000
    assert max(took) == pytest.approx(seconds, abs=0.21)  # a task may be so far ahead


def test_notes_survive_a_crash_while_they_are_replaced(spark: Any, tmp_path: Path) -> None:
    folder = Folder(spark, str(tmp_path))
    draft, note = tmp_path / "note.json.tmp", tmp_path / "note.json"
    draft.write_text('{"old')
    assert folder.read_json("note.json") is None  # the first one was never whole
    folder.write_json("note.json", {"old": 1})
    draft.write_text('{"new')
    assert folder.read_json("note.json") == {"old": 1}
    draft.write_text('{"new": 2}')
    note.unlink()
    assert folder.read_json("note.json") == {"new": 2}
    folder.write_json("note.json", {"newer": 3})
    assert folder.read_json("note.json") == {"newer": 3}
    assert not draft.exists()


def _rows(spark: Any, file: Path) -> int:
    return int(spark.read.parquet(str(file)).count())


def test_an_analysis_counts_on_from_its_checkpoint(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic, table = ours.topic(queues=1), tmp_path / "windows"
    arguments = ["analyse", "-n", ours.namesrv, "-t", topic, "--window", "1 second", "--watermark", "0 seconds"]
    arguments += ["--checkpoint", str(tmp_path / "checkpoint"), "--body-schema", "amount int"]
    assert "--parquet" in str(run(*arguments, code=1).exception)
    assert "only with --parquet" in run(*arguments, "--parquet", table, "--to-topic", "t", code=2).output
    counted = []
    for part in (30, 20, 10):
        ours.send(topic, [Message(topic, b'{"amount": 2}')] * part, queue_ids=(0,))
        counted.append(run(*arguments, "--parquet", table).output.split()[0])
        born = max(message.born_time for message in ours.received(topic))
        await_that("the next second", lambda born=born: now_ms() // 1000 > born // 1000)
    assert counted == ["30", "20", "10"]
    windows = spark.read.parquet(str(table)).collect()
    assert sum(row.messages for row in windows) == 50  # the last window is not over yet
    assert sum(row.fields.amount.present for row in windows) == 50
    assert len({row["from"] for row in windows}) == len(windows)
