"""The exactly-once sink, its driver dead at each step: a reader sees the batch once, or nothing of it."""

import json
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from typer.testing import CliRunner

from ariane import Admin
from ariane.cli.pipelines.command import app
from ariane.client.results import TransactionState
from ariane.errors import BrokerRefused, ResponseError, StoreError
from ariane.message import HALF_TOPIC
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import EndTransactionRequest
from ariane.protocol.units import TRANSACTION_COMMIT
from ariane.remoting import Connection
from ariane.spark.backlog import Backlog
from ariane.spark.cluster import Cluster
from ariane.spark.sink.checks import ANSWERS, Answers, CheckListener, finish
from ariane.spark.sink.committing import Committer
from ariane.spark.sink.decisions import Decision, Decisions, Try
from ariane.spark.sink.end_transactions import Settlement
from ariane.spark.sink.options import SinkOptions
from ariane.spark.sink.writer import Sent, Sink, Work
from tests.cluster import running_cluster
from tests.peers import free_port, unique
from tests.spark.clusters import Target, WaitingCluster, await_that
from tests.spark.dying import AFTER_DECISION, BEFORE_DECISION, STEPS, WHILE_TELLING, DyingCommitter, died
from tests.spark.test_kills import Job

SCHEMA = StructType([StructField("body", BinaryType())])
WITH_TOPIC = StructType([*SCHEMA.fields, StructField("topic", StringType())])
ROWS = 300  # more than are told ahead of the answers


@pytest.fixture(autouse=True)
def leave() -> Iterator[None]:
    """What a worker keeps as long as it lives."""
    yield
    ANSWERS.close()


class Crash(Exception):
    """The driver is dead."""


class Write:
    """A query with one batch of two tasks, run as often as its driver dies."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target = target
        self.topic = target.topic()
        self.options = SinkOptions.parse(
            {
                "nameserver": target.namesrv,
                "topic": self.topic,
                "group": unique("sink"),
                "delivery": "exactly-once",
                "checkpointlocation": str(folder / "checkpoint"),
            }
        )
        self.decisions = Decisions(str(folder / "checkpoint"))

    def tasks(self, batch: str = "0", query: str = "query") -> list[Sent]:
        """Send the half messages."""
        sink = Sink(self.options, SCHEMA)
        halves = [range(ROWS // 2), range(ROWS // 2, ROWS)]
        return [
            sink.send(iter([pa.record_batch({"body": [b"%d" % i for i in part]})]), Work(query, batch, index))
            for index, part in enumerate(halves)
        ]

    def commit(self, sent: list[Sent], dies_at: str = "nowhere", batch: str = "0") -> None:
        def reached(_: str, step: str) -> None:
            if step == dies_at:
                raise Crash(step)

        fresh = Sink(self.options, SCHEMA)._decision(sent, batch)
        with Cluster(self.options.access) as cluster:
            DyingCommitter(cluster, self.options, reached).commit(fresh, batch)

    def seen(self) -> Counter[int]:
        return Counter(int(message.body) for message in self.target.received(self.topic))


@pytest.mark.parametrize("step", [*STEPS, "nowhere"])
def test_a_driver_dies_and_the_next_one_shows_each_row_once(target: Target, tmp_path: Path, step: str) -> None:
    write = Write(target, tmp_path)
    try:
        write.commit(write.tasks(), step)
    except Crash:
        pass
    else:
        assert step == "nowhere"
    if step in (BEFORE_DECISION, AFTER_DECISION):
        assert write.seen() == Counter()
    write.commit(write.tasks())  # Spark runs the batch again, for it was not told that it is done
    await_that("each row", lambda: write.seen().keys() == set(range(ROWS)))
    write.commit(write.tasks(batch="1"), batch="1")
    await_that("the next batch", lambda: write.seen() == Counter(dict.fromkeys(range(ROWS), 2)))


def test_a_decision_of_another_query_is_not_taken_for_this_ones(target: Target, tmp_path: Path) -> None:
    """Its rows would be rolled back, and Spark told that they are written."""
    write = Write(target, tmp_path)
    write.commit(write.tasks())
    before = write.seen()
    with pytest.raises(StoreError, match=r"committed by another query \(query, this one is another\)"):
        write.commit(write.tasks(query="another"))
    assert write.seen() == before


def test_a_checkpoint_without_sparks_part_is_refused(spark: Any, ours: Target, tmp_path: Path) -> None:
    source, topic, checkpoint = tmp_path / "source", ours.topic(), tmp_path / "checkpoint"

    def run(first: int) -> None:
        spark.range(first, first + 50).selectExpr("cast(id as string) as body").write.mode("append").parquet(
            str(source)
        )
        frame = spark.readStream.schema("body string").parquet(str(source))
        writer = frame.writeStream.format("rocketmq").option("nameServer", ours.namesrv).option("topic", topic)
        writer = writer.option("delivery", "exactly-once").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    run(0)
    for name in ("offsets", "commits", "metadata", "sources"):
        gone = checkpoint / name
        if gone.is_dir():
            shutil.rmtree(gone)
        else:
            gone.unlink()
    (checkpoint / ".metadata.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match="was committed by another query"):
        run(50)
    assert sorted(int(message.body) for message in ours.received(topic)) == list(range(50))


class RestartingCluster(WaitingCluster):
    """A cluster whose broker is started after a while of waiting."""

    start: Callable[[], object] | None = None

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        if self.passed > 60 and self.start is not None:
            self.start()
            self.start = None


@pytest.mark.parametrize("decided", [False, True])
def test_a_commit_waits_for_a_broker_that_restarts(tmp_path: Path, decided: bool) -> None:
    with running_cluster(tmp_path) as cluster:
        port = free_port(-2, 1)
        cluster.start_broker(listenPort=port)
        write = Write(Target(cluster.namesrv, "ours"), tmp_path)
        sent = write.tasks()
        if decided:
            with pytest.raises(Crash):
                write.commit(sent, AFTER_DECISION)
        cluster.stop_broker()
        with RestartingCluster(write.options.access) as asked:
            asked.start = lambda: cluster.start_broker(listenPort=port)
            settlement = Settlement(asked, write.options)
            committer = Committer(settlement, write.decisions, asked, write.options.commit_timeout)
            committer.commit(None if decided else Sink(write.options, SCHEMA)._decision(sent, "0"), "0")
            assert 60 < asked.passed < write.options.commit_timeout
        assert write.seen() == Counter(range(ROWS))


class DyingJob(Job):
    """A query whose driver is killed with kill -9."""

    module = "tests.spark.dying"


@pytest.mark.timeout(600)
def test_kill_9_of_a_driver_at_each_step_shows_each_row_once(apache: Target, tmp_path: Path, deep: bool) -> None:
    """Every start of the query finishes the batch that the last one died in, and dies in the next.

    Each start is a JVM: a usual run kills at one step, and raises an exception at each (see above).
    """
    steps = STEPS if deep else STEPS[:1]
    topic, source = apache.topic(), tmp_path / "source"
    source.mkdir()
    for batch, _ in enumerate(steps):
        rows = range(batch * ROWS, (batch + 1) * ROWS)
        (source / f"{batch}.txt").write_text("".join(f"{row}\n" for row in rows))
    for step in [*steps, ""]:
        job = DyingJob(tmp_path, str(tmp_path), apache.namesrv, topic)
        try:
            if step:
                assert job.ended() == -signal.SIGKILL
                assert died(tmp_path, step).exists()
            else:
                job.finish()
        finally:
            job.kill()
    assert Counter(int(message.body) for message in apache.received(topic)) == Counter(range(len(steps) * ROWS))


def test_a_driver_that_never_comes_back_is_stood_in_for(ours: Target, tmp_path: Path) -> None:
    write = Write(ours, tmp_path)
    with pytest.raises(Crash):
        write.commit(write.tasks(), WHILE_TELLING)
    for finished in (["0"], []):
        said = CliRunner().invoke(app, ["settle", str(tmp_path / "checkpoint"), "-n", ours.namesrv])
        assert json.loads(said.stdout) == {"finished": finished}
        assert write.seen() == Counter(range(ROWS))


def test_a_commit_that_fails_after_its_decision_is_not_taken_back(spark: Any, tmp_path: Path) -> None:
    """Spark aborts a write whose commit fails. The decision stands all the same: the next start finishes it."""
    with running_cluster(tmp_path) as cluster:
        handlers = cluster.start_broker().handlers
        target = Target(cluster.namesrv, "ours")
        topic, end = target.topic(), handlers[RequestCode.END_TRANSACTION]

        def refuse(connection: Connection, request: Command) -> Any:
            if EndTransactionRequest.parse(request.fields).commit_or_rollback == TRANSACTION_COMMIT:
                raise ResponseError(ResponseCode.SYSTEM_ERROR, "not now")
            return end(connection, request)

        def write() -> None:
            writer = spark.range(0, ROWS, 1, 2).selectExpr("cast(id as string) as body").write.format("rocketmq")
            writer = writer.mode("append").option("nameServer", target.namesrv).option("topic", topic)
            writer = writer.option("delivery", "exactly-once").option("writeId", "nightly")
            writer = writer.option("commitTimeoutMs", 2000)
            writer.option("checkpointLocation", str(tmp_path / "checkpoint")).save()

        handlers[RequestCode.END_TRANSACTION] = refuse
        with pytest.raises(Exception, match="is committed, but not every broker could be told within 2 s"):
            write()
        handlers[RequestCode.END_TRANSACTION] = end
        assert target.received(topic) == []
        write()
        assert Counter(int(message.body) for message in target.received(topic)) == Counter(range(ROWS))


def test_rows_with_a_hash_key_stay_in_order_when_a_broker_refuses_one_for_a_while(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        handlers = cluster.start_broker().handlers
        write = Write(Target(cluster.namesrv, "ours"), tmp_path)
        end, told = handlers[RequestCode.END_TRANSACTION], 0

        def refuse_the_fifth(connection: Connection, request: Command) -> Any:
            nonlocal told
            told += 1
            if told == 5:
                raise ResponseError(ResponseCode.SYSTEM_ERROR, "not now")
            return end(connection, request)

        handlers[RequestCode.END_TRANSACTION] = refuse_the_fifth
        sink = Sink(write.options, StructType([*SCHEMA.fields, StructField("hashKey", StringType())]))
        rows = pa.record_batch({"body": [b"%d" % i for i in range(20)], "hashKey": ["one"] * 20})
        sink.decide([sink.send(iter([rows]), Work("query", "0", 0))], "0")
        received = sorted(write.target.received(write.topic), key=lambda message: message.queue_offset)
        assert [int(message.body) for message in received] == list(range(20))
        ANSWERS.close()


def _tries(sent: list[Sent]) -> list[Try]:
    return [one.attempt for one in sent if one.attempt is not None]


def asked(target: Target, which: Callable[[Any], bool] = lambda _: True) -> Any:
    return next(message for message in target.received(HALF_TOPIC) if which(message))


def test_brokers_that_ask_are_answered_from_the_checkpoint(ours: Target, tmp_path: Path) -> None:
    write = Write(ours, tmp_path)
    listener = CheckListener(write.options)
    sent = write.tasks()
    token = sent[0].attempt.token if sent[0].attempt else ""
    mine = asked(ours, lambda message: message.properties["ARIANE_TRY"] == token)
    assert listener.check(mine) is TransactionState.UNKNOWN  # nothing is decided
    with pytest.raises(Crash):
        write.commit(sent, AFTER_DECISION)
    at_work = write.decisions.lock()
    assert listener.check(mine) is TransactionState.UNKNOWN  # a driver is telling brokers right now
    stale = write.tasks()[0].attempt
    assert stale is not None
    theirs = asked(ours, lambda message: message.properties["ARIANE_TRY"] == stale.token)
    assert listener.check(theirs) is TransactionState.ROLLBACK  # a try that does not count
    assert write.seen() == Counter()
    at_work.release()
    assert listener.check(mine) is TransactionState.ROLLBACK  # told of the first one, so the copy is not needed
    assert write.seen() == Counter(range(ROWS))


def test_only_one_finishes_at_a_time(target: Target, tmp_path: Path) -> None:
    """Apache's broker shows what two tell it twice."""
    write = Write(target, tmp_path)
    with pytest.raises(Crash):
        write.commit(write.tasks(), AFTER_DECISION)
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(finish, "0", write.options, write.decisions) for _ in range(3)]:
            done.result()
    assert write.seen() == Counter(range(ROWS))


def test_what_a_broker_says_it_committed_and_nobody_sees_is_an_error(ours: Target, tmp_path: Path) -> None:
    write = Write(ours, tmp_path)
    sent = write.tasks()
    with pytest.raises(Crash):
        write.commit(sent, AFTER_DECISION)
    with Cluster(write.options.access) as cluster:  # somebody else takes back what is committed
        Settlement(cluster, write.options).roll_back(Decision("0", "query", sent[0].group, _tries(sent[:1]), {}))
    with pytest.raises(StoreError, match="150 messages of batch 0 are gone, though broker-a committed them"):
        write.commit(write.tasks())


def test_a_slave_that_is_left_alone_is_told_nothing(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        cluster.start_broker()
        write = Write(Target(cluster.namesrv, "ours"), tmp_path)
        sent = write.tasks()
        with pytest.raises(Crash):
            write.commit(sent, AFTER_DECISION)
        (decision,) = write.decisions.all()
        cluster.stop_broker()
        cluster.start_slave(brokerName="broker-a")
        with Cluster(write.options.access) as asked:
            settlement = Settlement(asked, write.options)
            asked.find_brokers()
            assert asked.addresses("broker-a")
            assert not settlement.commit(decision)
        cluster.stop_broker("slave")
        cluster.start_broker()
        finish("0", write.options, write.decisions)
        assert write.seen() == Counter(range(ROWS))


def test_a_backlog_is_done_when_all_that_was_stored_before_is_in_its_queues() -> None:
    def figures(stored: int, behind: int) -> dict[str, str]:
        return {"commitLogMaxOffset": str(stored), "dispatchBehindBytes": str(behind)}

    backlog = Backlog(figures(1000, 300))
    assert not backlog.is_done(figures(1000, 300))
    assert not backlog.is_done(figures(1400, 400))  # 1000 or 600: the two figures may be of different moments
    assert backlog.is_done(figures(9000, 400))  # a busy broker is never quite done
    assert Backlog(figures(1000, 0)).is_done(figures(1000, 0))


def producers(target: Target, group: str, topic: str) -> int:
    """How many of a group a broker may ask."""
    with Admin(name_servers=target.namesrv) as admin:
        try:
            return len(admin.producer_connections(group, topic).connection_set)
        except BrokerRefused:
            return 0


def test_a_worker_answers_for_whatever_topics_its_rows_have(ours: Target, tmp_path: Path) -> None:
    topic, group = ours.topic(), unique("sink")
    options = SinkOptions.parse(
        {
            "nameserver": ours.namesrv,
            "group": group,
            "delivery": "exactly-once",
            "checkpointlocation": str(tmp_path),
        }
    )
    row = pa.record_batch({"body": [b"1"], "topic": [topic]})
    Sink(options, WITH_TOPIC).send(iter([row]), Work("query", "0", 0))
    await_that("somebody to ask", lambda: producers(ours, group, topic) == 1)


def test_a_worker_answers_for_the_latest_few_writes_only(ours: Target, tmp_path: Path) -> None:
    options, topic, answers = Write(ours, tmp_path).options, ours.topic(), Answers(keep=2)
    groups = [unique("sink") for _ in range(3)]
    try:
        for group in (*groups[:2], groups[0]):
            answers.begin(options, group, topic)
        for group in groups[:2]:
            await_that("somebody to ask", lambda group=group: producers(ours, group, topic))
        answers.begin(options, groups[2], topic)
        await_that("somebody to ask", lambda: producers(ours, groups[2], topic))
        assert [producers(ours, group, topic) for group in groups] == [1, 0, 1]
    finally:
        answers.close()


def test_apaches_checks_make_no_message_twice(apache: Target, tmp_path: Path) -> None:
    """Its broker copies undecided half messages each second here, and asks about the copies."""
    write = Write(apache, tmp_path)
    sent = write.tasks()

    def copies() -> int:
        return sum(message.properties.get("PGROUP") == write.options.group for message in apache.received(HALF_TOPIC))

    await_that("copies of half messages", lambda: copies() > ROWS)
    write.commit(sent)
    with Admin(name_servers=apache.namesrv) as admin:
        (queue,) = admin.queues(HALF_TOPIC)
        last = admin.max_offset(queue)
        await_that("a look at every copy", lambda: (admin.committed("CID_RMQ_SYS_TRANS", queue) or 0) >= last)
    assert write.seen() == Counter(range(ROWS))
