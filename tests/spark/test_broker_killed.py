"""A broker killed with kill -9 while a stream reads from it: nothing is missing, nothing comes twice."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.programs import Program, program
from tests.peers.jvm import free_port, listening, until
from tests.spark.clusters import DEADLINE, Target, await_that, numbered

COUNT = 60_000
MORE = 1000  # sent after each restart
KILLS = 3


class KilledBroker:
    """Our broker as a process that comes back with its store and its port."""

    def __init__(self, folder: Path, names: int) -> None:
        self._folder = folder
        self._port = free_port(-2, 1)
        (folder / "broker.conf").write_text(
            f"brokerName=a\nbrokerIP1=127.0.0.1\nlistenPort={self._port}\nnamesrvAddr=127.0.0.1:{names}\n"
            f"storePathRootDir={folder}/store\nmappedFileSizeCommitLog=67108864\ndiskMaxUsedSpaceRatio=95\n"
        )
        self.start()

    def start(self) -> None:
        self._process = Program(self._folder, "mqbroker", "-c", "broker.conf")
        self._process.await_text(f"is ready on 127.0.0.1:{self._port}")

    def kill(self) -> None:
        self._process.process.send_signal(signal.SIGKILL)
        self._process.process.wait()


class Table:
    """A Parquet table that a stream writes, and the stream's checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "table"
        self.checkpoint = folder / "checkpoint"

    def done(self) -> int:
        """How many batches are in the table."""
        log = self.checkpoint / "commits"
        return sum(name.isdigit() for name in os.listdir(log)) if log.is_dir() else 0

    def files(self) -> int:
        """How many files there are, those being written among them."""
        return sum(name.startswith("part-") for name in os.listdir(self.path)) if self.path.is_dir() else 0

    def await_mid_batch(self, batches: int) -> None:
        """Wait until rows of a batch that is not done are being written, and `batches` are done."""
        end = time.monotonic() + DEADLINE
        while True:
            done, files = self.done(), self.files()
            while (now := self.done()) == done and self.files() == files:
                assert time.monotonic() < end, "no batch begins"
                threading.Event().wait(0.002)
            if now == done >= batches:
                return


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Target, KilledBroker]]:
    names = free_port()
    with program(tmp_path, "ariane", "namesrv", "--listen-port", str(names)):
        until(lambda: listening(names), DEADLINE, "the name server's port")
        broker = KilledBroker(tmp_path, names)
        try:
            yield Target(f"127.0.0.1:{names}", "ours"), broker
        finally:
            broker.kill()


@pytest.mark.timeout(600)
def test_three_kills_of_the_broker_in_mid_batch_leave_each_message_once_in_the_table(
    spark: Any, cluster: tuple[Target, KilledBroker], tmp_path: Path
) -> None:
    target, broker = cluster
    topic, table = target.topic(), Table(tmp_path)
    messages = numbered(topic, COUNT + KILLS * MORE, size=1)
    target.send(topic, messages[:COUNT])
    reader = spark.readStream.format("rocketmq").schema("keys string, queueId int, queueOffset bigint")
    reader = reader.option("nameServer", target.namesrv).option("topic", topic).option("startingOffsets", "earliest")
    reader = reader.option("maxOffsetsPerTrigger", 6000).option("minPartitions", 2).option("pullTimeoutMs", 60_000)
    writer = reader.load().writeStream.format("parquet").option("checkpointLocation", str(table.checkpoint))
    query = writer.start(str(table.path))
    try:
        for kill in range(KILLS):
            table.await_mid_batch(kill * 2)
            broker.kill()
            broker.start()
            sent = COUNT + kill * MORE
            target.send(topic, messages[sent : sent + MORE])
        await_that("all rows", lambda: query.exception() or _rows(spark, table) >= len(messages))
    finally:
        query.stop()
    assert query.exception() is None
    keys = spark.read.parquet(str(table.path)).select("keys").collect()
    assert Counter(int(row.keys[1:]) for row in keys) == Counter(range(len(messages)))


def _rows(spark: Any, table: Table) -> int:
    return int(spark.read.parquet(str(table.path)).count())
