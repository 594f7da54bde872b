"""A driver of the exactly-once sink that dies at each step of a commit, in a process of its own or as an exception.

python -m tests.spark.dying FOLDER NAME_SERVER TOPIC: one batch a file of FOLDER/source; batch N is killed at STEPS[N],
once.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from ariane.spark.broker_connection import BrokerConnection
from ariane.spark.cluster import Cluster
from ariane.spark.sink.committing import Committer
from ariane.spark.sink.decisions import Decision, Decisions
from ariane.spark.sink.end_transactions import Settlement
from ariane.spark.sink.options import SinkOptions
from ariane.spark.sink.writer import Sink, StreamSink
from ariane.spark.source import RocketmqSource
from bench.process import descendants

BEFORE_DECISION = "before the decision"
AFTER_DECISION = "after the decision"
WHILE_TELLING = "while brokers are told"
AFTER_TELLING = "after brokers were told"
AFTER_SETTLING = "before Spark notes that the batch is done"
STEPS = [WHILE_TELLING, AFTER_DECISION, BEFORE_DECISION, AFTER_TELLING, AFTER_SETTLING]

Reached = Callable[[str, str], None]
"""Called with a decision's name and the step that its driver has reached; does not return where the driver dies."""


class DyingSettlement(Settlement):
    """Has sent a window of requests when it dies, and heard no answer."""

    def __init__(self, cluster: Cluster, options: SinkOptions, reached: Reached) -> None:
        super().__init__(cluster, options)
        self._reached = reached
        self._name = ""

    def commit(self, decision: Decision) -> bool:
        self._name = decision.name
        return super().commit(decision)

    def _hear(self, connection: BrokerConnection, heard: set[str]) -> bool:
        if self._name:
            self._reached(self._name, WHILE_TELLING)
        return super()._hear(connection, heard)


class DyingCommitter(Committer):
    """Tells where it is."""

    def __init__(self, cluster: Cluster, options: SinkOptions, reached: Reached) -> None:
        assert options.checkpoint is not None
        super().__init__(DyingSettlement(cluster, options, reached), Decisions(options.checkpoint), cluster)
        self._reached = reached

    def commit(self, fresh: Decision | None, name: str) -> None:
        super().commit(fresh, name)
        self._reached(name, AFTER_SETTLING)

    def decided(self, decision: Decision) -> None:
        self._reached(decision.name, BEFORE_DECISION)
        super().decided(decision)
        self._reached(decision.name, AFTER_DECISION)

    def settled(self, decision: Decision) -> None:
        self._reached(decision.name, AFTER_TELLING)
        super().settled(decision)


class DyingSink(Sink):
    """Kills all processes of its application, once at each step."""

    def committer(self, cluster: Cluster) -> Committer:
        return DyingCommitter(cluster, self.options, self._reached)

    def _reached(self, name: str, step: str) -> None:
        assert self.options.checkpoint is not None
        mark = died(Path(self.options.checkpoint).parent, step)
        if STEPS[int(name)] == step and not mark.exists():
            mark.touch()
            kill_application()


def died(folder: Path, step: str) -> Path:
    """The file that says that the driver died at a step."""
    return folder / f"died {step}"


def kill_application() -> None:
    """Kill -9 of the driver, its JVM and its workers; this is one of them."""
    driver = os.getsid(0)
    for pid in {driver, *descendants(driver)} - {os.getpid()}:
        os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class DyingSource(RocketmqSource):
    """The sink with a driver that dies."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamSink(DyingSink(SinkOptions.parse(self.options), schema))


def main(folder: str, name_server: str, topic: str) -> None:
    from tests.spark.job import session

    spark = session("local[1]", folder)
    spark.dataSource.register(DyingSource)
    rows: Any = spark.readStream.option("maxFilesPerTrigger", 1).text(f"{folder}/source").selectExpr("value as body")
    writer = rows.writeStream.format("rocketmq-dying").option("nameServer", name_server)
    writer = writer.option("topic", topic).option("delivery", "exactly-once")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    from tests.spark.dying import main as run  # the workers import it by this name

    run(*sys.argv[1:])
