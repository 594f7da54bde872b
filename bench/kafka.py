"""Kafka beside them: one KRaft node, loaded by its own tools, for batched sending and for draining."""

import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.process import cpu_seconds, machine, memory
from bench.rounds import print_row
from tests.peers.build import CACHE, COPY, run_tool
from tests.peers.jvm import Server, free_port

POM = Path(__file__).parent / "java" / "kafka" / "pom.xml"
HEAP = ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC"]  # as Kafka's own start script sets it
RECORD = 128
TOPIC = "bench"

LOG4J = """<Configuration status="OFF">
  <Appenders><Console name="out"><PatternLayout pattern="%m%n"/></Console></Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


@dataclass(frozen=True)
class Tool:
    """One of Kafka's load tools, and how its report tells records and seconds."""

    case: str
    arguments: list[str]
    figures: str


def kafka_jars() -> str:
    """The class path; fetched once into the checkout's cache."""
    jars = CACHE / "kafka"
    if not jars.exists():
        part = CACHE / "kafka.part"
        places = [f"-Dmaven.repo.local={CACHE / 'm2'}", f"-DoutputDirectory={part}"]
        run_tool(["mvn", "-B", "-q", "-ntp", "-f", str(POM), COPY, "-DincludeScope=runtime", *places])
        part.rename(jars)
    return f"{jars}/*"


class Kafka:
    """A single node that is broker and controller."""

    def __init__(self, home: Path) -> None:
        self._classpath = kafka_jars()
        port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        home.mkdir(parents=True)
        (home / "log4j2.xml").write_text(LOG4J)
        config = home / "server.properties"
        config.write_text(_settings(home, port, controller))
        format_log = ["kafka.tools.StorageTool", "format", "--standalone", "-t", "AAAAAAAAAAAAAAAAAAAAAQ"]
        run_tool(self._java(home, [], [*format_log, "-c", str(config)]))
        started = time.monotonic()
        self._server = Server("kafka", home, self._java(home, HEAP, ["kafka.Kafka", str(config)]))
        self._server.await_line("Kafka Server started", timeout=90)
        self.seconds_to_ready = time.monotonic() - started
        self.pid = self._server.pid

    def _java(self, home: Path, flags: list[str], main: list[str]) -> list[str]:
        defines = [f"-Dlog4j2.configurationFile={home / 'log4j2.xml'}", f"-Djava.io.tmpdir={home}"]
        return ["java", *flags, *defines, "-cp", self._classpath, *main]

    def run(self, tool: Tool) -> dict[str, Any]:
        """Run a load tool to its end: records, seconds."""
        command = ["java", "-Xmx512m", "-cp", self._classpath, *tool.arguments]
        quiet = {**os.environ, "LOG4J_LEVEL": "OFF"}
        done = subprocess.run(command, text=True, capture_output=True, check=True, timeout=300, env=quiet)
        found = re.search(tool.figures, done.stdout)
        if found is None:
            raise RuntimeError(f"Kafka's tool said nothing known:\n{done.stdout[-2000:]}")
        return {name: float(value) for name, value in found.groupdict().items()}

    def stop(self) -> None:
        self._server.kill()


def _settings(home: Path, port: int, controller: int) -> str:
    return f"""process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={home / "data"}
num.partitions=4
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
"""


def _tools(address: str, count: int) -> list[Tool]:
    send = ["org.apache.kafka.tools.ProducerPerformance", "--topic", TOPIC, "--throughput", "-1"]
    send += ["--record-size", str(RECORD), "--num-records", str(count), "--bootstrap-server", address]
    batched = [*send, "--command-property", "acks=1"]
    drain = ["org.apache.kafka.tools.ConsumerPerformance", "--topic", TOPIC, "--num-records", str(count)]
    drain += ["--bootstrap-server", address, "--hide-header", "--group", f"bench-{time.monotonic_ns()}"]
    # records sent, records/sec (MB/sec), ...: the last line is the whole
    sent = r"(?P<messages>\d+) records sent, (?P<rate>[\d.]+) records/sec.*99\.9th"
    # start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, ...
    drained = r"(?P<messages>\d+), [\d.]+, -?\d+, (?P<millis>\d+), [\d.]+, [\d.]+\s*$"
    return [Tool("batches", batched, sent), Tool("drain", drain, drained)]


def measure_kafka(home: Path, rounds: int, count: int) -> list[dict[str, Any]]:
    """Rows of Kafka, the first round being its warm-up."""
    rows: list[dict[str, Any]] = []
    kafka = Kafka(home)
    try:
        for number in range(-1, rounds):
            print(f"Kafka, {'warm-up' if number < 0 else f'round {number + 1}'}", flush=True)
            found = [_measure(kafka, number, tool) for tool in _tools(kafka.address, count)]
            rows += found if number >= 0 else []
        used = memory(kafka.pid)
    finally:
        kafka.stop()
    rows.append({"broker": "kafka", "round": 0, "case": "process", "ready": kafka.seconds_to_ready,
                 "resident": used.resident, "private": used.private})  # fmt: skip
    return rows


def _measure(kafka: Kafka, number: int, tool: Tool) -> dict[str, Any]:
    before, cpu, began = machine(), cpu_seconds(kafka.pid), time.monotonic()
    found = kafka.run(tool)
    spent, after, elapsed = cpu_seconds(kafka.pid) - cpu, machine(), time.monotonic() - began
    messages = found["messages"]
    rate = found["rate"] if "rate" in found else messages / found["millis"] * 1000
    row = {"broker": "kafka", "round": number, "case": tool.case, "messages": messages, "rate": rate}
    row |= {"cpu_us": spent / messages * 1e6, "others": (after.busy - before.busy - spent) / elapsed}
    print_row(row)
    return row
