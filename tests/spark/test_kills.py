"""Drivers killed with kill -9 in mid-batch: nothing is missing, nothing comes twice."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from ariane.message import Message
from bench.process import descendants
from tests.spark.clusters import Target, numbered
from tests.spark.job import STARTED

ROOT = Path(__file__).parent.parent.parent
LIMIT = 400.0
COUNT = 400_000
SAMPLE = 90_000  # messages of a usual run, which leaves out the last kill
PORTIONS = 25


class Job:
    """The job in a process group of its own."""

    module = "tests.spark.job"

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        home = str(Path(pyspark.__file__).parent)
        self._said = folder / "job.log"
        self._done = {query: self._batches(query, "commits") for query in ("table", "copy")}
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

    def await_start(self) -> None:
        """Wait until both queries run."""
        self._await(lambda: STARTED in self._last_words())

    def await_mid_batch(self, query: str, after: int) -> None:
        """Wait until a batch of the query is planned and not done, and this job has done `after` others."""
        done = self._done[query] + after
        self._await(lambda: done <= self._batches(query, "commits") < self._batches(query, "offsets"))

    def _await(self, holds: Callable[[], bool]) -> None:
        while not holds():
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


@contextmanager
def flowing(target: Target, *messages: Sequence[Message]) -> Iterator[None]:
    """Messages that come little by little while the block runs, those of each topic by themselves."""

    def send(all_of_them: Sequence[Message]) -> None:
        step = len(all_of_them) // PORTIONS
        for at in range(0, len(all_of_them), step):
            target.send(all_of_them[at].topic, all_of_them[at : at + step])

    senders = [threading.Thread(target=send, args=(some,)) for some in messages]
    for sender in senders:
        sender.start()
    try:
        yield
    finally:
        for sender in senders:
            sender.join()


def shares(messages: Sequence[Message], parts: int) -> list[Sequence[Message]]:
    """A part to be there at the beginning, and one for each job that is killed."""
    size = len(messages) // parts
    return [messages[at : at + size] for at in range(0, len(messages), size)]


@pytest.mark.timeout(1200)
def test_kills_leave_every_message_once_in_a_table_and_a_copied_topic_once_in_another(
    spark: Any, ours: Target, tmp_path: Path, deep: bool
) -> None:
    kills = [("local-cluster[2,1,1024]", "table"), ("local[2,4]", "copy"), ("local[2,4]", "table")][: 3 if deep else 2]
    count, parts = COUNT if deep else SAMPLE, len(kills) + 1
    copied, per_batch = 1000 * parts, str(count // 10)
    table_topic, from_topic, to_topic = topics = [ours.topic(), ours.topic(), ours.topic()]
    rows, copies = shares(numbered(table_topic, count, size=1), parts), shares(numbered(from_topic, copied), parts)
    ours.send(table_topic, rows[0])
    ours.send(from_topic, copies[0])
    for (master, query), *flow in zip(kills, rows[1:], copies[1:], strict=True):
        job = Job(tmp_path, master, "never", per_batch, str(tmp_path), ours.namesrv, *topics)
        try:
            job.await_start()
            with flowing(ours, *flow):
                if master.startswith("local-cluster"):
                    job.await_mid_batch(query, 0)
                    job.kill_an_executor()
                job.await_mid_batch(query, 1)
                job.kill()
        finally:
            job.kill()
    last = Job(tmp_path, "local[2,4]", "present", per_batch, str(tmp_path), ours.namesrv, *topics)
    try:
        last.finish()
    finally:
        last.kill()
    table = spark.read.parquet(str(tmp_path / "table"))
    assert table.count() == table.select("keys").distinct().count() == count
    assert Counter(int(message.body) for message in ours.received(to_topic)) == Counter(range(copied))
