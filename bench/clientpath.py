"""`python -m bench.clientpath`: what a message costs a client.

The client is the real one on a network in memory. A case runs twice with different counts of messages; the difference
is what the messages cost, without starting and closing.
"""

import argparse
import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from functools import cache, partial
from typing import Any

from ariane import ConsumeFrom, ConsumeStatus, Message, aio
from bench.memory_network import NAME_SERVER, PULL, MemoryLoop, pull_body

FEW, MANY = 256, 1280  # messages of the two runs
_WINDOW = 128  # sends in flight
BODY = b"x" * 128


async def send(count: int, *, batching: bool = False) -> None:
    """Send so many messages, a window of them in flight."""
    async with aio.Producer("P", name_servers=NAME_SERVER, batching=batching) as producer:
        await producer.send(Message("T", BODY))

        async def work() -> None:
            for _ in range(count // _WINDOW):
                await producer.send(Message("T", BODY))

        await asyncio.gather(*(work() for _ in range(_WINDOW)))


async def consume(count: int, *, batch: int, function: bool = False) -> None:
    """Consume a backlog of so many messages."""
    loop, done, got = asyncio.get_running_loop(), asyncio.Event(), 0

    def note(messages: list[Any]) -> Any:
        nonlocal got
        got += len(messages)
        if got >= count:
            loop.call_soon_threadsafe(done.set)
        return ConsumeStatus.CONSUME_SUCCESS

    async def listen(messages: list[Any]) -> Any:
        return note(messages)

    options: Any = {"name_servers": NAME_SERVER, "consume_from": ConsumeFrom.FIRST, "consume_batch": batch}
    async with aio.PushConsumer("G", "T", note if function else listen, **options):
        await done.wait()


CASES: dict[str, Callable[[int], Coroutine[Any, Any, None]]] = {
    "client send": send,
    "client send in batches": partial(send, batching=True),
    "client consume lists": partial(consume, batch=32),
    "client consume one by one": partial(consume, batch=1),
}


@cache
def _bodies(count: int) -> list[bytes]:
    return [pull_body(at) for at in range(0, count, PULL)]


def run(case: str, count: int) -> None:
    """Run a case on a loop of its own."""
    loop = MemoryLoop(_bodies(count))
    try:
        loop.run_until_complete(CASES[case](count))
    finally:
        loop.close()


def warm_up() -> None:
    """Run every case once, so that what is done once in a process is done."""
    for case in CASES:
        run(case, MANY)


def jobs() -> dict[str, tuple[Callable[[], object], Callable[[], object], int]]:
    """Of each case a short and a long run, and by how many messages the long one is longer."""
    return {case: (partial(run, case, FEW), partial(run, case, MANY), MANY - FEW) for case in CASES}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.clientpath", description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--count", type=int, default=20480, help="messages of the longer run")
    parser.add_argument("--rounds", type=int, default=3, help="the shortest of so many counts")
    options = parser.parse_args()
    for case in CASES:
        if options.only not in case:
            continue
        spent = {FEW: math.inf, options.count: math.inf}
        for _ in range(options.rounds):
            for count in spent:
                began = time.process_time()
                run(case, count)
                spent[count] = min(spent[count], time.process_time() - began)
        each = (spent[options.count] - spent[FEW]) / (options.count - FEW)
        print(f"{case:28} {each * 1e6:6.2f} µs a message")


if __name__ == "__main__":
    main()
