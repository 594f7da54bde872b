"""`python -m bench.app`: what a listener of `ariane.app` costs beside one of the raw client, in CPU per message.

Both drain the same backlog of JSON orders in one process, in turn, so that neighbours see the same machine; medians
count. A raw listener decodes the payload as the application layer does.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from pydantic import BaseModel, TypeAdapter

from ariane import ConsumeFrom, ConsumeStatus, Message, ReceivedMessage, aio
from ariane.app import Ariane
from bench.brokers import Ariane as Broker

RESULTS = Path(__file__).parent / "results"
TOPIC, MOST = "app-backlog", 1.5


class Order(BaseModel):
    """A payload of ordinary size."""

    id: int
    item: str
    amount: int
    note: str


class Countdown:
    """Counts messages in any thread; `done` is set at the last one."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._loop = asyncio.get_running_loop()
        self.done = asyncio.Event()

    def one(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._loop.call_soon_threadsafe(self.done.set)


Drain = Callable[[str, str, int], Awaitable[None]]
decode = TypeAdapter(Order).validator.validate_json


async def raw_coroutine(namesrv: str, group: str, count: int) -> None:
    """The client alone, with a coroutine."""
    left = Countdown(count)

    async def listen(messages: list[ReceivedMessage]) -> ConsumeStatus:
        decode(messages[0].body)
        left.one()
        return ConsumeStatus.CONSUME_SUCCESS

    async with aio.PushConsumer(group, TOPIC, listen, name_servers=namesrv, consume_from=ConsumeFrom.FIRST):
        await left.done.wait()


async def app_coroutine(namesrv: str, group: str, count: int) -> None:
    """The application layer, with a coroutine."""
    app, left = Ariane(name_servers=namesrv), Countdown(count)

    @app.listener(TOPIC, group=group, start_at="first")
    async def listen(order: Order) -> None:
        left.one()

    async with app:
        await left.done.wait()


async def raw_function(namesrv: str, group: str, count: int) -> None:
    """The client alone, with a plain function in threads."""
    left = Countdown(count)

    def listen(messages: list[ReceivedMessage]) -> ConsumeStatus:
        decode(messages[0].body)
        left.one()
        return ConsumeStatus.CONSUME_SUCCESS

    options = {"name_servers": namesrv, "threads": 1}  # one thread, so that counting needs no lock
    async with aio.PushConsumer(group, TOPIC, listen, consume_from=ConsumeFrom.FIRST, **options):  # type: ignore[arg-type]
        await left.done.wait()


async def app_function(namesrv: str, group: str, count: int) -> None:
    """The application layer, with a plain function in threads."""
    app, left = Ariane(name_servers=namesrv), Countdown(count)

    @app.listener(TOPIC, group=group, start_at="first", concurrency=1)
    def listen(order: Order) -> None:
        left.one()

    async with app:
        await left.done.wait()


PAIRS: dict[str, tuple[Drain, Drain]] = {
    "coroutine": (raw_coroutine, app_coroutine),
    "plain function": (raw_function, app_function),
}


async def fill(namesrv: str, count: int) -> None:
    """Make the backlog."""
    body = Order(id=1, item="tea", amount=2, note="x" * 60).model_dump_json().encode()
    async with aio.Producer("fill", name_servers=namesrv, default_topic_queues=8) as producer:
        for at in range(0, count, 500):
            await producer.send_batch([Message(TOPIC, body) for _ in range(min(500, count - at))], timeout=30)


async def measure(namesrv: str, count: int, rounds: int) -> dict[str, dict[str, float]]:
    """CPU microseconds a message of each pair, and their ratio."""
    await fill(namesrv, count)
    table: dict[str, dict[str, float]] = {}
    for name, pair in PAIRS.items():
        costs: list[tuple[float, float]] = []
        for number in range(rounds + 1):
            used = []
            for layer, drain in zip(("raw", "app"), pair, strict=True):
                before = time.process_time()
                await drain(namesrv, f"{layer}-{name.replace(' ', '-')}-{number}", count)
                used.append((time.process_time() - before) / count * 1e6)
            if number:  # the first round warms up
                costs.append((used[0], used[1]))
        raw, app = median(cost[0] for cost in costs), median(cost[1] for cost in costs)
        table[name] = {"raw": raw, "app": app, "ratio": median(cost[1] / cost[0] for cost in costs)}
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backlog", type=int, default=50_000, help="messages to consume")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", default=str(RESULTS), help="where app.json goes")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ariane-bench-"))
    broker = Broker(folder / "broker", "ASYNC_FLUSH")
    try:
        table = asyncio.run(measure(broker.namesrv, arguments.backlog, arguments.rounds))
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    results = Path(arguments.results)
    results.mkdir(parents=True, exist_ok=True)
    (results / "app.json").write_text(json.dumps(table, indent=1))
    print(f"{'listener':16}{'raw µs':>10}{'app µs':>10}{'ratio':>8}")
    for name, row in table.items():
        verdict = "met" if row["ratio"] <= MOST else "MISSED"
        print(f"{name:16}{row['raw']:10.1f}{row['app']:10.1f}{row['ratio']:8.2f}  of {MOST}: {verdict}")


if __name__ == "__main__":
    main()
