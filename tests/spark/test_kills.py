"""Drivers killed with kill -9 in mid-batch: nothing is missing, nothing comes twice."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.clusters import Target, numbered
from tests.spark.conftest import require_spark

ROOT = Path(__file__).parent.parent.parent
LIMIT = 120.0


class Job:
    """The job in a process group of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.checkpoint = folder / "checkpoint"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.job", str(folder), *arguments],
            cwd=folder,
            env=environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def batches(self, log: str) -> int:
        """How many batches a log of the checkpoint has."""
        folder = self.checkpoint / log
        return sum(name.isdigit() for name in os.listdir(folder)) if folder.is_dir() else 0

    def kill_in_mid_batch(self, after: int) -> None:
        """Kill when a batch is planned, not done, and `after` ones are done."""
        while self._process.poll() is None:
            done = self.batches("commits")
            if done >= after and self.batches("offsets") > done:
                break
            threading.Event().wait(0.01)  # the broker is in this process, and has work to do
        else:
            pytest.fail("the job ended before it was killed")
        self._end(signal.SIGKILL)

    def finish(self) -> None:
        assert self._process.wait(LIMIT) == 0

    def _end(self, how: int) -> None:
        os.killpg(self._process.pid, how)
        self._process.wait()

    def close(self) -> None:
        if self._process.poll() is None:
            self._end(signal.SIGKILL)


def run_and_kill(start: Callable[[], Job], kills: list[int]) -> None:
    for after in kills:
        job = start()
        try:
            job.kill_in_mid_batch(after)
        finally:
            job.close()
    job = start()
    try:
        job.finish()
    finally:
        job.close()


@pytest.fixture
def busy(ours: Target) -> Target:
    require_spark()
    return ours


def test_400_000_messages_reach_a_table_once_through_three_kills(spark: Any, busy: Target, tmp_path: Path) -> None:
    topic, count = busy.topic(), 400_000
    busy.send(topic, numbered(topic, count, size=1))
    run_and_kill(lambda: Job(tmp_path, "parquet", busy.namesrv, topic), [1, 4, 7])
    table = spark.read.parquet(str(tmp_path / "table"))
    assert table.count() == table.select("keys").distinct().count() == count


def test_a_topic_reaches_another_once_through_kills(busy: Target, tmp_path: Path) -> None:
    topic, target = busy.topic(), busy.topic()
    busy.send(topic, numbered(topic, 3000))
    run_and_kill(lambda: Job(tmp_path, "sink", busy.namesrv, topic, target), [1, 3])
    assert Counter(int(message.body) for message in busy.received(target)) == Counter(range(3000))
