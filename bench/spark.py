"""`python -m bench.spark`: topics and stores in Spark, beside what bounds them, in one run.

Rows a second, and CPU seconds for a million rows of Spark's processes together (driver, JVM, Python workers); what
a micro-batch costs, and the driver's memory over a thousand of them. The promises are judged at the end.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ariane import Admin, Message, Producer
from ariane.message import MessageQueue
from ariane.protocol.units import decode_unit
from bench.brokers import Ariane
from bench.kafka import Kafka, Tool
from bench.process import cpu_with_children, descendants, machine
from bench.spark_batches import ROWS, Batches, floors, run_batches
from bench.spark_targets import (
    KAFKA,
    LOG_TO_NOOP,
    NOOP_BOUND,
    PARQUET_BOUND,
    TOPIC_AS_KAFKA,
    TOPIC_TO_NOOP,
    TOPIC_TO_PARQUET,
    verdicts,
)
from tests.peers.build import CACHE, COPY, run_tool

RESULTS = Path(__file__).parent / "results"
FOUR = "topic string, queueId int, queueOffset bigint, body binary"
SEVEN = f"keys string, {FOUR}, storeTimestamp timestamp, flag int"  # as many, and of the types, that Kafka's source has
BODY = 100  # bytes, in RocketMQ's topic and in Kafka's
PULLS = "".join(  # a broker that serves batch readers gives them more than 32 messages at a time
    f"maxTransfer{what}OnMessageIn{where}={limit}\n"
    for what, limit in (("Count", 8192), ("Bytes", 2 << 20))
    for where in ("Memory", "Disk")
)
FAST = {  # what docs/spark.md advises; all cases run with it
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.extraJavaOptions": "-Darrow.enable_unsafe_memory_access=true",
}
WARM = 2  # the JVM compiles what it runs often
FLOOR_BATCHES = 100
TOPIC = "topic"
PATIENCE = 15.0  # seconds for a case: a slow one runs less often
POM = Path(__file__).parent / "java" / "spark-kafka" / "pom.xml"


@dataclass
class Row:
    """One measurement."""

    case: str
    rows: int
    seconds: float
    rate: float
    cpu_per_million: float
    others: float  # cores busy with something else meanwhile


class Books:
    """CPU of this process and everything it started but the brokers. A process that ends takes its account with it."""

    def __init__(self, brokers: list[int]) -> None:
        others = {pid for broker in brokers for pid in descendants(broker)}
        self._before = {pid: cpu_with_children(pid) for pid in descendants(os.getpid()) if pid not in others}
        self._others = others

    def spent(self) -> float:
        """Since these books were opened."""
        mine = [pid for pid in descendants(os.getpid()) if pid not in self._others]
        return sum(max(cpu_with_children(pid) - self._before.get(pid, 0.0), 0.0) for pid in mine)


class Bench:
    """Runs cases and keeps their rows."""

    def __init__(self, spark: SparkSession, options: argparse.Namespace, broker: int) -> None:
        self.spark = spark
        self.count: int = options.messages
        self._rounds: int = options.rounds
        self._only = re.compile(options.only)
        self.brokers = [broker]
        self.results: list[Row] = []

    def case(self, name: str, work: Callable[[], None], rows: int | None = None) -> None:
        """Measure the best of a few rounds, after some to warm up; nothing of a case that is not wanted."""
        if not self._only.search(name):
            return
        rows = rows or self.count
        end = time.monotonic() + PATIENCE
        for again in range(WARM):
            if not again or time.monotonic() < end - PATIENCE / 2:
                work()
        found = [self._measure(name, work, rows)]
        while len(found) < self._rounds and time.monotonic() < end:
            found.append(self._measure(name, work, rows))
        row = min(found, key=lambda one: one.seconds)
        self.results.append(row)
        print(f"{name:34} {row.rate:12,.0f} rows/s {row.cpu_per_million:8.2f} CPU s/M rows  "
              f"(others {row.others:.1f} cores)", flush=True)  # fmt: skip

    def _measure(self, name: str, work: Callable[[], None], rows: int) -> Row:
        before, books, began = machine(), Books(self.brokers), time.monotonic()
        work()
        elapsed, spent, after = time.monotonic() - began, books.spent(), machine()
        others = (after.busy - before.busy - spent) / elapsed
        return Row(name, rows, elapsed, rows / elapsed, spent / rows * 1e6, others)


def noop(frame: DataFrame) -> Callable[[], None]:
    return lambda: frame.write.format("noop").mode("overwrite").save()


def parquet(frame: DataFrame, folder: Path) -> Callable[[], None]:
    return lambda: frame.write.mode("overwrite").parquet(str(folder))


def windows(frame: DataFrame) -> DataFrame:
    from ariane.spark.pipelines.analyse import Questions, windowed

    return windowed(frame, Questions(window="10 seconds"))


def streaming(make: Callable[[], DataFrame], sink: str, folder: Path) -> Callable[[], None]:
    """A whole stream from its beginning to the present, with a new checkpoint each time."""

    def run() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        writer = make().writeStream.format(sink).option("checkpointLocation", str(folder / "checkpoint"))
        if sink != "noop":
            writer = writer.option("path", str(folder / "table"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

    return run


class TupleReader(DataSourceReader):
    """What a plain connector does: a tuple for each message."""

    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(file)) for file in sorted(Path(self._path).iterdir())]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        data = Path(partition.value).read_bytes()
        at = 0
        while data[at + 4 : at + 8] == b"\xda\xa3\x20\xa7":
            unit = decode_unit(data, at)
            at += unit.size
            if unit.topic == b"events":
                yield unit.topic.decode(), unit.queue_id, unit.queue_offset, unit.body


class TupleSource(DataSource):
    """The yardstick of row by row."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return FOUR

    def reader(self, schema: Any) -> DataSourceReader:
        return TupleReader(self.options["path"])


def fill(name_server: str, count: int) -> None:
    """Messages of about 310 bytes in the log."""
    with Admin(name_servers=name_server) as admin:
        admin.create_topic("events", queues=8)
    with Producer("bench", name_servers=name_server) as producer:
        queues: list[MessageQueue] = []
        while len(queues) != 8:
            queues = [queue for queue in producer.queues("events") if queue.topic == "events"]
        for start in range(0, count, 1000):
            batch = [
                Message("events", b"%0*d" % (BODY, i), tags=f"Tag{i % 5}", keys=f"key-{i}", properties={"n": str(i)})
                for i in range(start, min(start + 1000, count))
            ]
            producer.send_batch(batch, queue=queues[start // 1000 % 8])


def run_topic(bench: Bench, name_server: str, folder: Path) -> None:
    def read(schema: str | None = None, stream: bool = False) -> DataFrame:
        reader: Any = bench.spark.readStream if stream else bench.spark.read
        reader = reader.format("rocketmq").option("nameServer", name_server).option("topic", "events")
        reader = reader.option("startingOffsets", "earliest")
        return (reader.schema(schema) if schema else reader).load()

    bench.case(TOPIC_TO_NOOP, noop(read(FOUR)))
    bench.case(TOPIC_AS_KAFKA, noop(read(SEVEN)))
    bench.case("topic, 17 columns, to noop", noop(read()))
    bench.case(TOPIC_TO_PARQUET, parquet(read(), folder / "topic"))
    bench.case("topic, windowed aggregation", noop(windows(read())))
    bench.case("stream, 4 columns, to noop", streaming(lambda: read(FOUR, True), "noop", folder / "s1"))
    bench.case("stream, 17 columns, to Parquet", streaming(lambda: read(None, True), "parquet", folder / "s2"))
    bench.case("stream, windowed aggregation", streaming(lambda: windows(read(None, True)), "noop", folder / "s3"))


def run_store(bench: Bench, store: Path, folder: Path) -> None:
    def read(schema: str | None = None) -> DataFrame:
        reader = bench.spark.read.format("rocketmq-commitlog").option("topic", "events")
        return (reader.schema(schema) if schema else reader).load(str(store))

    bench.case(LOG_TO_NOOP, noop(read(FOUR)))
    bench.case("commitlog, 17 columns, to noop", noop(read()))
    bench.case("commitlog, 17 columns, to Parquet", parquet(read(), folder / "log"))
    bench.spark.dataSource.register(TupleSource)
    bench.case("tuples, 4 columns, to noop", noop(bench.spark.read.format("tuples").load(str(store / "commitlog"))))
    if not (folder / "log").exists():
        parquet(read(), folder / "log")()
    table = bench.spark.read.parquet(str(folder / "log"))
    bench.case(NOOP_BOUND, noop(table))
    bench.case(PARQUET_BOUND, parquet(table, folder / "copy"))


def micro_batches(bench: Bench, name_server: str, folder: Path, options: argparse.Namespace) -> dict[str, Batches]:
    """Micro-batches of a few rows each, of the topic and of the streams that bound it from below."""
    reader = bench.spark.readStream.format("rocketmq").schema(FOUR).option("nameServer", name_server)
    reader = reader.option("topic", "events").option("startingOffsets", "earliest")
    found: dict[str, Batches] = {}
    for name, rows in floors(bench.spark).items():
        found[name] = run_batches(rows, folder / f"floor-{len(found)}", FLOOR_BATCHES, options.batch_seconds / 10)
    rows = reader.option("maxOffsetsPerTrigger", ROWS).load()
    try:
        found[TOPIC] = run_batches(rows, folder / "many", options.batches, options.batch_seconds)
    except StreamingQueryException as error:  # the other rows are worth keeping
        print(f"no micro-batches: {str(error).splitlines()[0]}", flush=True)
    for name, one in found.items():
        parts = ", ".join(f"{part} {spent:.0f}" for part, spent in one.parts_ms.items())
        print(
            f"{name}: {one.batches} micro-batches of {ROWS} rows, {one.overhead_ms:.0f} ms each ({parts})", flush=True
        )
    return found


def spark_kafka_jars() -> str:
    """Spark's Kafka source and what it needs; fetched once into the checkout's cache."""
    jars = CACHE / "spark-kafka"
    if not jars.exists():
        part = CACHE / "spark-kafka.part"
        places = [f"-Dmaven.repo.local={CACHE / 'm2'}", f"-DoutputDirectory={part}"]
        run_tool(["mvn", "-B", "-q", "-ntp", "-f", str(POM), COPY, "-DincludeScope=runtime", *places])
        part.rename(jars)
    wanted = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    return ",".join(str(jar) for jar in jars.glob("*.jar") if jar.name.startswith(wanted))


def run_kafka(bench: Bench, folder: Path) -> None:
    kafka = Kafka(folder / "kafka")
    bench.brokers.append(kafka.pid)
    try:
        send = ["org.apache.kafka.tools.ProducerPerformance", "--topic", "bench", "--throughput", "-1"]
        send += ["--record-size", str(BODY), "--num-records", str(bench.count), "--bootstrap-server", kafka.address]
        kafka.run(Tool("fill", [*send, "--command-property", "acks=1"], r"(?P<messages>\d+) records sent.*99\.9th"))
        reader = bench.spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.address)
        rows = reader.option("subscribe", "bench").load()
        bench.case(KAFKA, noop(rows))
        bench.case("Kafka's source to Parquet", parquet(rows, folder / "from-kafka"))
    finally:
        kafka.stop()


def session(folder: Path, kafka: bool, settings: dict[str, str] = FAST) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder: Any = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for name, value in settings.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.shuffle.partitions", 2).config("spark.driver.memory", "3g")
    manager = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    builder = builder.config("spark.sql.streaming.checkpointFileManagerClass", manager)
    builder = builder.config("spark.local.dir", str(folder / "local")).config("spark.driver.host", "127.0.0.1")
    if kafka:
        builder = builder.config("spark.jars", spark_kafka_jars())
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def summary(bench: Bench, batches: dict[str, Batches]) -> list[dict[str, Any]]:
    """Print all rows beside their bound, and which promises hold; the promises as data."""
    rates = {row.case: row.rate for row in bench.results}
    cpu = {row.case: row.cpu_per_million for row in bench.results}
    print(f"\n{'case':34} {'rows/s':>12} {'CPU s/M rows':>14} {'of the bound':>14}")
    for row in bench.results:
        bound = rates.get(PARQUET_BOUND if "Parquet" in row.case.split(" to ", 1)[-1] else NOOP_BOUND)
        ratio = f"{row.rate / bound:.2f}" if bound else "-"
        print(f"{row.case:34} {row.rate:12,.0f} {row.cpu_per_million:14.2f} {ratio:>14}")
    overhead, growth = (batches[TOPIC].overhead_ms, batches[TOPIC].growth) if TOPIC in batches else (None, None)
    judged = verdicts(rates, cpu, overhead, growth)
    print("\n" + "\n".join(str(verdict) for verdict in judged))
    return [{**asdict(verdict), "met": verdict.met} for verdict in judged]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=1000, help="micro-batches of the overhead and memory case")
    parser.add_argument("--batch-seconds", type=float, default=200, help="no longer than this for them")
    parser.add_argument("--memory", action="store_true", help="only the micro-batches")
    parser.add_argument("--only", default="", help="cases whose name has this pattern, and no micro-batches")
    parser.add_argument("--plain", action="store_true", help="without the settings that docs/spark.md advises")
    parser.add_argument("--no-kafka", action="store_true", help="leave Spark's Kafka source out")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


def measure(options: argparse.Namespace, folder: Path) -> tuple[Bench, dict[str, Batches]]:
    kafka = not options.no_kafka and not options.memory
    broker = Ariane(folder / "broker", "ASYNC_FLUSH", more=PULLS)
    try:
        fill(broker.namesrv, options.messages)
        spark = session(folder, kafka, {} if options.plain else FAST)
        bench = Bench(spark, options, broker.pid)
        if not options.memory:
            run_store(bench, folder / "broker" / "store", folder)
            run_topic(bench, broker.namesrv, folder)
        if kafka:
            run_kafka(bench, folder)
        batches = {} if options.only else micro_batches(bench, broker.namesrv, folder, options)
        bench.spark.stop()
    finally:
        broker.stop()
    return bench, batches


def main() -> None:
    options = arguments()
    folder = Path(tempfile.mkdtemp(prefix="ariane-bench-"))
    try:
        bench, batches = measure(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = {
        "messages": options.messages,
        "rows": [asdict(row) for row in bench.results],
        "batches": {name: {**asdict(one), "growth": one.growth} for name, one in batches.items()},
        "promises": summary(bench, batches),
    }
    options.results.mkdir(parents=True, exist_ok=True)
    name = "spark-memory.json" if options.memory else "spark.json"
    (options.results / name).write_text(json.dumps(found, indent=1))
    print(f"\nwritten to {options.results / name}")


if __name__ == "__main__":
    main()
