"""A broker in this process without sockets: bytes of requests in, answers into nothing. The hot path alone."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ariane.broker.config import BrokerOptions
from ariane.broker.server import Broker
from ariane.remoting.connection import Connection
from ariane.remoting.endpoint import Endpoint
from ariane.settings.host import Host
from bench.frames import BODY, batch_frame, pull_frame, send_frame

TOPIC = "hot"
READ = 32  # requests that arrive in one read
FILLED = 4096  # messages that pulls find
_BATCH = 32


class NullTransport:
    """Takes what is written and lets it go."""

    def __init__(self) -> None:
        self.last = b""

    def write(self, data: bytes) -> None:
        self.last = data

    def writelines(self, parts: list[bytes]) -> None:
        self.last = parts[0]

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 50000) if name in ("peername", "sockname") else None

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


@dataclass(frozen=True)
class Workload:
    """Chunks of bytes that are fed in turn, and how many messages each of them moves."""

    name: str
    chunks: list[bytes]
    messages: int
    counter: str = "put_count"
    """The store's counter that says whether the messages moved."""


class HotPath:
    """The broker with one connection. Must be used inside a running event loop; nothing happens in the background."""

    def __init__(self, folder: Path) -> None:
        options = BrokerOptions.load(host=Host()).replaced({
            "brokerIP1": "127.0.0.1", "storePathRootDir": str(folder), "storePathCommitLog": str(folder / "commitlog"),
            "mappedFileSizeCommitLog": 128 << 20, "maxHashSlotNum": 50_000, "maxIndexNum": 4_000_000,
            "namesrvAddr": "", "waitTimeMillsInSendQueue": 60_000, "osPageCacheBusyTimeOutMills": 60_000,
        })  # fmt: skip
        self.broker = Broker(options)
        self.broker.store.open()
        self.broker.store.health.accepts_messages(True)  # the role does this when the broker starts
        self.broker.store.add_dispatch_listener(self.broker.longpoll.arrived)
        self.broker.writer.host = bytes((127, 0, 0, 1, 0, 0, 42, 159))
        endpoint = Endpoint(self.broker.handlers, self.broker.env.clock, cycle=self.broker.cycle, throttle=True)
        self.transport = NullTransport()
        self._connection = Connection(endpoint)
        self._connection.connection_made(cast(asyncio.Transport, self.transport))
        self.feed = self._connection.data_received

    async def fill(self) -> None:
        """Make the topic and the group, wait until their tables are saved, and make the messages that pulls find."""
        batches = batch_workload()
        self.run(batches, 1)
        self.feed(pull_frame(TOPIC, 0, 0))
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        self.run(batches, FILLED // batches.messages - 1)

    def run(self, work: Workload, reads: int) -> None:
        """Feed so many reads."""
        feed, chunks, stats = self.feed, work.chunks, self.broker.store.stats
        count = len(chunks)
        expected = getattr(stats, work.counter) + reads * work.messages
        for number in range(reads):
            feed(chunks[number % count])
        if getattr(stats, work.counter) != expected:
            raise RuntimeError(f"the broker refused what it was to {work.name}: {self.transport.last[:300]!r}")

    async def close(self) -> None:
        await self.broker.store.close()


def workloads() -> list[Workload]:
    """Single sends, batches and pulls, as Apache's Java client writes them."""
    return [send_workload(), batch_workload(), pull_workload()]


def send_workload(topic: str = TOPIC, queues: int = 4) -> Workload:
    requests = [send_frame(number, topic, number % queues) for number in range(8 * READ)]
    chunks = [b"".join(requests[start : start + READ]) for start in range(0, len(requests), READ)]
    return Workload("send", chunks, READ)


def batch_workload() -> Workload:
    requests = [batch_frame(TOPIC, number, BODY, _BATCH) for number in range(8)]
    return Workload("batch", [b"".join(requests[start : start + 2]) for start in range(0, 8, 2)], 2 * _BATCH)


def pull_workload() -> Workload:
    offsets = range(0, FILLED, _BATCH)
    requests = [pull_frame(TOPIC, number, offset) for number, offset in enumerate(offsets)]
    return Workload(
        "pull", [b"".join(requests[at : at + 4]) for at in range(0, len(requests), 4)], 4 * _BATCH, "transferred"
    )
