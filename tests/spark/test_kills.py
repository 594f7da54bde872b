"""Drivers killed with kill -9 in mid-batch: nothing is missing, nothing comes twice."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from tests.spark.clusters import Target, numbered

ROOT = Path(__file__).parent.parent.parent
LIMIT = 120.0
COUNT = 400_000


class Job:
    """The job in a process group of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.job", str(folder), *arguments],
            cwd=folder,
            env=environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _batches(self, query: str, log: str) -> int:
        """How many batches a log of a checkpoint has."""
        folder = self._folder / f"{query}-checkpoint" / log
        return sum(name.isdigit() for name in os.listdir(folder)) if folder.is_dir() else 0

    def _in_mid_batch(self, query: str, after: int) -> bool:
        done = self._batches(query, "commits")
        return done >= after and self._batches(query, "offsets") > done

    def kill_in_mid_batch(self, query: str, after: int) -> None:
        """Kill when a batch of the query is planned and not done, and `after` ones are done."""
        while not self._in_mid_batch(query, after):
            assert self._process.poll() is None, "the job ended before it was killed"
            threading.Event().wait(0.01)  # the broker is in this process, and has work to do
        self.close()

    def finish(self) -> None:
        assert self._process.wait(LIMIT) == 0

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def test_three_kills_leave_400_000_messages_once_in_a_table_and_a_copied_topic_once_in_another(
    spark: Any, ours: Target, tmp_path: Path
) -> None:
    table_topic, from_topic, to_topic = ours.topic(), ours.topic(), ours.topic()
    ours.send(table_topic, numbered(table_topic, COUNT, size=1))
    ours.send(from_topic, numbered(from_topic, 3000))
    for query, after in (("table", 1), ("copy", 2), ("table", 6), ("", 0)):
        job = Job(tmp_path, ours.namesrv, table_topic, from_topic, to_topic)
        try:
            if query:
                job.kill_in_mid_batch(query, after)
            else:
                job.finish()
        finally:
            job.close()
    table = spark.read.parquet(str(tmp_path / "table"))
    assert table.count() == table.select("keys").distinct().count() == COUNT
    assert Counter(int(message.body) for message in ours.received(to_topic)) == Counter(range(3000))
