"""Drivers killed with kill -9 in mid-batch: nothing is missing, nothing comes twice."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark
import pytest

from bench.process import descendants
from tests.spark.clusters import Target, numbered

ROOT = Path(__file__).parent.parent.parent
LIMIT = 400.0
COUNT = 400_000


class Job:
    """The job in a process group of its own."""

    module = "tests.spark.job"

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        home = str(Path(pyspark.__file__).parent)
        self._said = folder / "job.log"
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, *arguments],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": paths, "SPARK_HOME": home},
                start_new_session=True,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def _batches(self, query: str, log: str) -> int:
        """How many batches a log of a checkpoint has."""
        folder = self._folder / f"{query}-checkpoint" / log
        return sum(name.isdigit() for name in os.listdir(folder)) if folder.is_dir() else 0

    def await_mid_batch(self, query: str, after: int) -> None:
        """Wait until a batch of the query is planned and not done, and `after` ones are done."""
        while not after <= self._batches(query, "commits") < self._batches(query, "offsets"):
            assert self._process.poll() is None, f"the job ended before it was killed:\n{self._last_words()}"
            threading.Event().wait(0.01)  # the broker is in this process, and has work to do

    def kill_an_executor(self) -> None:
        """The process of one executor, with its Python workers."""
        executors = [pid for pid in descendants(self._process.pid) if _runs(pid, b"CoarseGrainedExecutorBackend")]
        assert len(executors) == 2
        os.kill(executors[0], signal.SIGKILL)

    def finish(self) -> None:
        assert self.ended() == 0, self._last_words()

    def ended(self) -> int:
        """Wait until it ends; its exit code."""
        return self._process.wait(LIMIT)

    def _last_words(self) -> str:
        return self._said.read_text(errors="replace")[-8000:]

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _runs(pid: int, what: bytes) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False
    return what in command and command.split(b"\0")[0].endswith(b"java")


@pytest.mark.timeout(1200)
def test_three_kills_leave_400_000_messages_once_in_a_table_and_a_copied_topic_once_in_another(
    spark: Any, ours: Target, tmp_path: Path
) -> None:
    topics = [ours.topic(), ours.topic(), ours.topic()]
    ours.send(topics[0], numbered(topics[0], COUNT, size=1))
    ours.send(topics[1], numbered(topics[1], 3000))
    for master, query, after in (
        ("local-cluster[2,1,1024]", "table", 1),
        ("local[2]", "copy", 2),
        ("local[2]", "table", 6),
        ("local[2]", "", 0),
    ):
        job = Job(tmp_path, master, str(tmp_path), ours.namesrv, *topics)
        try:
            if master != "local[2]":
                job.await_mid_batch(query, 0)
                job.kill_an_executor()
            if query:
                job.await_mid_batch(query, after)
            else:
                job.finish()
        finally:
            job.kill()
    table = spark.read.parquet(str(tmp_path / "table"))
    assert table.count() == table.select("keys").distinct().count() == COUNT
    assert Counter(int(message.body) for message in ours.received(topics[2])) == Counter(range(3000))
