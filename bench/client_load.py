"""Load by a Python client: one process that runs a case a line, as `Load.java` does for the Java client.

The same file drives Ariane's client and the C++ wrapper (`rocketmq` from PyPI), each in its own interpreter; so it
imports nothing but what that interpreter has.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Result = dict[str, Any]


def timed(seconds: float, threads: int, send: Callable[[], object]) -> Result:
    """Call `send` in so many threads for a while, and count."""
    counts = [0] * threads
    failures = [0] * threads
    end = time.perf_counter() + seconds

    def work(number: int) -> None:
        while time.perf_counter() < end:
            try:
                send()
            except Exception:
                failures[number] += 1
            counts[number] += 1

    started = time.perf_counter()
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failed = sum(failures)
    return {"messages": sum(counts) - failed, "failed": failed, "seconds": time.perf_counter() - started}


class Ours:
    """Ariane's client."""

    def sync(self, namesrv: str, topic: str, threads: int, size: int, millis: int) -> Result:
        import ariane

        body = b"x" * size
        with ariane.Producer("bench", name_servers=namesrv) as producer:
            producer.send(ariane.Message(topic, body))
            return timed(millis / 1000, threads, lambda: producer.send(ariane.Message(topic, body)))

    def asynchronous(self, namesrv: str, topic: str, window: int, size: int, millis: int, batching: int = 0) -> Result:
        return run(self._asynchronous(namesrv, topic, window, b"x" * size, millis / 1000, bool(batching)))

    async def _asynchronous(
        self, namesrv: str, topic: str, window: int, body: bytes, seconds: float, batching: bool
    ) -> Result:
        from ariane import Message, aio

        async with aio.Producer("bench-async", name_servers=namesrv, batching=batching) as producer:
            await producer.send(Message(topic, body))
            sent = 0
            started = time.perf_counter()

            async def work() -> None:
                nonlocal sent
                while time.perf_counter() - started < seconds:
                    await producer.send(Message(topic, body))
                    sent += 1

            await asyncio.gather(*(work() for _ in range(window)))
            return {"messages": sent, "failed": 0, "seconds": time.perf_counter() - started}

    def push(self, namesrv: str, topic: str, count: int, batch: int, function: int = 0) -> Result:
        return run(self._push(namesrv, topic, count, batch, bool(function)))

    async def _push(self, namesrv: str, topic: str, count: int, batch: int, function: bool) -> Result:
        from ariane import ConsumeFrom, ConsumeStatus, aio

        first = 0.0
        received = 0
        loop, done, lock = asyncio.get_running_loop(), asyncio.Event(), threading.Lock()

        def note(messages: list[Any]) -> Any:
            nonlocal first, received
            first = first or time.perf_counter()
            received += len(messages)
            if received >= count:
                loop.call_soon_threadsafe(done.set)
            return ConsumeStatus.CONSUME_SUCCESS

        async def listen(messages: list[Any]) -> Any:
            return note(messages)

        def listen_in_threads(messages: list[Any]) -> Any:
            with lock:
                return note(messages)

        group = f"bench-{time.time_ns()}"
        options: Any = {"name_servers": namesrv, "consume_from": ConsumeFrom.FIRST, "consume_batch": batch}
        async with aio.PushConsumer(group, topic, listen_in_threads if function else listen, **options):
            await asyncio.wait_for(done.wait(), 300)
            return {"messages": received, "failed": 0, "seconds": time.perf_counter() - first}

    def shared(self, namesrv: str, topic: str, window: int, size: int, millis: int) -> Result:
        return run(self._shared(namesrv, topic, window, b"x" * size, millis / 1000))

    async def _shared(self, namesrv: str, topic: str, window: int, body: bytes, seconds: float) -> Result:
        """Send with a full window and consume the same topic on one loop; counts what came until the last send."""
        from ariane import ConsumeStatus, Message, aio

        sent = received = 0

        async def listen(messages: list[Any]) -> Any:
            nonlocal received
            received += len(messages)
            return ConsumeStatus.CONSUME_SUCCESS

        async with aio.Producer("bench-shared", name_servers=namesrv) as producer:
            await producer.send(Message(topic, body))
            group = f"bench-{time.time_ns()}"
            async with aio.PushConsumer(group, topic, listen, name_servers=namesrv, consume_batch=32):
                started = time.perf_counter()

                async def work() -> None:
                    nonlocal sent
                    while time.perf_counter() - started < seconds:
                        await producer.send(Message(topic, body))
                        sent += 1

                await asyncio.gather(*(work() for _ in range(window)))
                took, in_time = time.perf_counter() - started, received
        return {"messages": sent, "received": in_time, "failed": 0, "seconds": took}

    def idle(self, namesrv: str, topic: str, size: int) -> Result:
        """Start a producer, send one message and leave the producer open: what an idle client costs."""
        import ariane

        started = time.perf_counter()
        self._idle = ariane.Producer("bench-idle", name_servers=namesrv)
        self._idle.start()
        self._idle.send(ariane.Message(topic, b"x" * size))
        return {"messages": 1, "failed": 0, "seconds": time.perf_counter() - started}


class Wrapper:
    """The C++ client behind its Python package."""

    def __init__(self) -> None:
        self._producers: dict[str, Any] = {}

    def sync(self, namesrv: str, topic: str, threads: int, size: int, millis: int) -> Result:
        from rocketmq.client import Message, Producer

        if namesrv not in self._producers:
            producer = Producer("bench-cpp")
            producer.set_namesrv_addr(namesrv)
            producer.start()
            self._producers[namesrv] = producer
        producer, body = self._producers[namesrv], b"x" * size

        def send() -> None:
            message = Message(topic)
            message.set_body(body)
            producer.send_sync(message)

        send()
        return timed(millis / 1000, threads, send)


def run(work: Any) -> Any:
    """Under uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def main() -> None:
    client: Any = Ours() if sys.argv[1] == "ours" else Wrapper()
    for line in sys.stdin:
        case, *words = line.split()
        arguments = {name: int(value) if value.isdigit() else value for name, value in (w.split("=", 1) for w in words)}
        try:
            result = getattr(client, {"async": "asynchronous"}.get(case, case))(**arguments)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
