"""A model of what a load costs each broker: CPU, memory, disk, network. `docs/capacity.md` says how it was measured.

Bytes follow from RocketMQ's formats and hold everywhere. CPU times are those of one machine, and of the compiled hot
path; `python -m bench.plan` measures them on another.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Final

KIB: Final = 1024
MIB: Final = 1 << 20
GIB: Final = 1 << 30
UNIT: Final = 91  # bytes of a stored message besides topic, properties and body
QUEUE_ENTRY: Final = 20
INDEX_ENTRY: Final = 20
INDEX_SLOTS: Final = 1  # byte a key: 5,000,000 slots of 4 bytes for 20,000,000 entries
LOG_FILE: Final = GIB
INDEX_FILE: Final = 420 * MIB


class Sending(StrEnum):
    """How producers send: it decides how many messages share a wake-up of the broker."""

    SYNC = "sync"
    ASYNC = "async"
    BATCH = "batch"


@dataclass(frozen=True)
class Costs:
    """CPU microseconds a message, and bytes, as measured."""

    send_us: float
    """Of one message of no size."""
    send_us_per_kib: float
    consume_us: float
    """For each consumer group."""
    consume_us_per_kib: float
    copy_us: float
    """Of the master, for each slave."""
    copy_us_per_kib: float
    slave_us: float
    """Of a slave."""
    slave_us_per_kib: float
    base_memory: int = 80 * MIB
    topic_memory: int = 8704
    queue_memory: int = 2150
    connection_memory: int = 5120
    request_bytes: int = 250
    """Of a send besides properties and body; a batch shares it."""
    answer_bytes: int = 250
    pull_bytes: int = 40
    """Of a pull and its answer, a message's share, besides the stored message."""


MEASURED: Final = {
    # docs/performance.md: 64 threads, 2,000 in flight, batches of 32; 128 B and 1 KiB on a quiet machine, compiled.
    Sending.SYNC: Costs(4.6, 3.8, 0.7, 0.1, 0.6, 0.1, 0.5, 3.0),
    Sending.ASYNC: Costs(2.4, 3.8, 0.7, 0.1, 0.3, 0.1, 0.5, 3.0),
    Sending.BATCH: Costs(1.6, 3.8, 0.7, 0.1, 0.3, 0.1, 0.5, 3.0),
}
BATCH: Final = 32


@dataclass(frozen=True)
class Workload:
    """What producers and consumers do, in the whole cluster."""

    rate: float
    """Messages a second at the peak."""
    size: int
    """Bytes of a body."""
    retention_hours: float = 72.0
    average: float = 1.0
    """The average rate as a part of the peak: what is kept follows from it."""
    replicas: int = 1
    """Copies of each message, the master's included."""
    groups: int = 1
    topics: int = 100
    queues: int = 8
    """Of each topic on each broker."""
    connections: int = 100
    properties: int = 64
    """Bytes: the unique id takes 43, keys and tags come on top."""
    topic_length: int = 16
    keys: int = 0
    """Keys of a message besides its unique id."""
    sending: Sending = Sending.ASYNC
    hot_seconds: float = 60.0
    """How far consumers may be behind and still read from memory."""

    def __post_init__(self) -> None:
        for name in ("rate", "size", "retention_hours", "average", "replicas", "topics", "queues"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")


@dataclass(frozen=True)
class Limits:
    """What one broker may use of its machine."""

    cpu: float = 0.6
    """Of the one core that a broker uses: the rest is for peaks, recovery and cleaning."""
    disk: float = 0.75
    """`diskMaxUsedSpaceRatio`: above it files are deleted before they expire."""


@dataclass(frozen=True)
class Line:
    """One figure of a plan, and how it came about."""

    name: str
    value: float
    unit: str
    why: str


def stored_bytes(load: Workload) -> int:
    """Bytes of a message in the commitlog."""
    return UNIT + load.topic_length + load.properties + load.size


def kept_bytes(load: Workload) -> int:
    """Bytes of a message in all files of one copy."""
    return stored_bytes(load) + QUEUE_ENTRY + (1 + load.keys) * (INDEX_ENTRY + INDEX_SLOTS)


def master_us(load: Workload, costs: Costs) -> float:
    """CPU microseconds of a master for each message that it stores."""
    kib = stored_bytes(load) / KIB
    sends = costs.send_us + costs.send_us_per_kib * kib
    reads = load.groups * (costs.consume_us + costs.consume_us_per_kib * kib)
    copies = (load.replicas - 1) * (costs.copy_us + costs.copy_us_per_kib * kib)
    return sends + reads + copies


def slave_us(load: Workload, costs: Costs) -> float:
    """CPU microseconds of a slave for each message of its master."""
    return costs.slave_us + costs.slave_us_per_kib * stored_bytes(load) / KIB


def received_bytes(load: Workload, costs: Costs) -> float:
    """Bytes that a master receives for each message, frames and headers included."""
    shared = BATCH if load.sending is Sending.BATCH else 1
    return costs.request_bytes / shared + load.properties + load.size


def sent_bytes(load: Workload, costs: Costs) -> float:
    """Bytes that a master sends for each message: the answer, and the message to each group and slave."""
    shared = BATCH if load.sending is Sending.BATCH else 1
    reads = load.groups * (stored_bytes(load) + costs.pull_bytes)
    return costs.answer_bytes / shared + reads + (load.replicas - 1) * stored_bytes(load)


def memory_bytes(load: Workload, costs: Costs) -> float:
    """Memory of a broker's process, without the page cache."""
    queues = load.topics * load.queues
    return (
        costs.base_memory
        + load.topics * costs.topic_memory
        + queues * costs.queue_memory
        + (load.connections * costs.connection_memory)
    )


def plan(load: Workload, costs: Costs | None = None, limits: Limits | None = None) -> list[Line]:
    """What a load needs, from the number of masters to the disk of each."""
    costs, limits = costs or MEASURED[load.sending], limits or Limits()
    us = master_us(load, costs)
    per_master = limits.cpu * 1e6 / us
    masters = max(1, ceil(load.rate / per_master))
    rate = load.rate / masters
    kept = kept_bytes(load) * rate * load.average * load.retention_hours * 3600
    spare = 2 * LOG_FILE + INDEX_FILE
    disk = (kept + spare) / limits.disk
    memory = memory_bytes(load, costs)
    cache = stored_bytes(load) * rate * load.hot_seconds
    brokers = masters * load.replicas
    mbit = 8 / 1e6
    each = f"{per_master:,.0f} for one at {limits.cpu:.0%} of a core"
    parts = f"{load.size} body, {load.properties} properties, {UNIT + load.topic_length} fields and topic"
    many = f"{load.topics:,} topics of {load.queues} queues, {load.connections:,} connections"
    readers = f"{load.groups} groups, {load.replicas - 1} slaves"
    lines = [
        Line("masters", masters, "", f"{load.rate:,.0f} messages/s, {each}"),
        Line("brokers", brokers, "", f"{load.replicas} copies of each message"),
        Line("rate of a master", rate, "messages/s", "spread evenly by the queues"),
        Line("CPU a message", us, "µs", f"{load.sending} send, {readers}"),
        Line("CPU of a master", rate * us / 1e6, "cores", "at the peak; a broker uses one core"),
    ]
    if load.replicas > 1:
        lines.append(Line("CPU of a slave", rate * slave_us(load, costs) / 1e6, "cores", "copies, queues and index"))
    return [
        *lines,
        Line("stored message", stored_bytes(load), "B", parts),
        Line("kept message", kept_bytes(load), "B", "with its queue entry and index entries"),
        Line("kept by a broker", kept / GIB, "GiB", f"{load.retention_hours:g} h at {load.average:.0%} of the peak"),
        Line(
            "disk of a broker", disk / GIB, "GiB", f"{spare / GIB:.1f} GiB made ahead, {limits.disk:.0%} full at most"
        ),
        Line("disk of the cluster", disk * brokers / GIB, "GiB", f"{brokers} brokers"),
        Line("disk writes of a broker", rate * kept_bytes(load) / MIB, "MiB/s", "sequential, at the peak"),
        Line("memory of a broker", memory / MIB, "MiB", many),
        Line("page cache of a broker", cache / MIB, "MiB", f"consumers {load.hot_seconds:g} s behind read no disk"),
        Line("network into a master", rate * received_bytes(load, costs) * mbit, "Mbit/s", "requests of producers"),
        Line("network out of a master", rate * sent_bytes(load, costs) * mbit, "Mbit/s", f"answers, {readers}"),
    ]
