"""`python -m bench.filters`: the CPU of a broker for each message that it looks at, by kind of filter.

A queue holds messages with a JSON body of about 200 bytes and four properties; each filter selects every tenth. One
client pulls the whole queue with each filter, from the broker and through a filter server, both processes of their own.
"""

import argparse
import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wasmtime import wat2wasm

from ariane import Expression, Message, PullStatus, Sql, WasmFilter, aio
from ariane.client.options import Selector
from ariane.errors import BrokerRefused, RouteMissing
from ariane.message import MessageQueue
from ariane.protocol.codes import ResponseCode
from ariane.protocol.units import decode_units
from ariane.version import describe
from bench.brokers import Ariane, start_ariane
from bench.process import cpu_seconds

TOPIC = "filtered"
GROUP = "bench_filters"
LIMITS = "filterGroupMillisPerSecond=1000\nfilterMessageMaxMillis=10000\n"
MORE = f"filterUploadEnable=true\nenablePropertyFilter=true\n{LIMITS}"
MODULE = """(module (memory (export "memory") 4)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "filter") (param $at i32) (param $size i32) (result i32)
    (local $end i32)
    (local.set $end (i32.sub (i32.add (local.get $at) (local.get $size)) (i32.const 8)))
    (local.set $at (i32.add (local.get $at) (i32.const 12)))
    (loop $next  ;; search the message for `"tenth":t`, eight bytes at a time
      (if (i64.eq (i64.load (local.get $at)) (i64.const 0x743a226874_6e6574)) (then (return (i32.const 1))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.le_u (local.get $at) (local.get $end))))
    (i32.const 0)))"""


def message(number: int) -> Message:
    """Every tenth has the tag, the property and the member of the body that the filters look for."""
    tenth = number % 10 == 0
    body = {"customer": {"name": "somebody", "country": "SE"}, "total": number, "text": "x" * 120, "tenth": tenth}
    properties = {"region": "eu", "tier": "gold", "tenth": "yes" if tenth else "no", "number": str(number)}
    return Message(
        TOPIC, json.dumps(body, separators=(",", ":")).encode(), tags="T" if tenth else "F", properties=properties
    )


def cases() -> dict[str, Selector]:
    """The filters, from the cheapest on."""
    module = bytes(wat2wasm(MODULE))
    return {
        "none": "*",
        "tag": "T",
        "SQL92": Sql("tenth = 'yes' AND region = 'eu'"),
        "expression over properties": Expression("tenth = 'yes' AND region = 'eu'"),
        "expression over the body": Expression("body.tenth = TRUE AND body.customer.country = 'SE'"),
        "WebAssembly, searches the message": WasmFilter("bench.wasm", module=module),
        "expression over the body, filter server": Expression(
            "body.tenth = TRUE AND body.customer.country = 'SE'", filter_server=True
        ),
        "WebAssembly, filter server": WasmFilter("bench.wasm", True, module),
    }


@contextlib.contextmanager
def processes(home: Path) -> Iterator[tuple[Ariane, int]]:
    """A broker with its name server, and a filter server beside it; the latter's process id."""
    broker = Ariane(home, "ASYNC_FLUSH", more=MORE)
    server = None
    try:
        (home / "fs.conf").write_text(
            f"connectWhichBroker={broker.address}\nfilterServerIP=127.0.0.1\nbindAddress=127.0.0.1\n{LIMITS}"
        )
        server = start_ariane(home, "filterserver", ["-c", str(home / "fs.conf")])
        yield broker, server.pid
    finally:
        if server is not None:
            server.terminate()
            server.wait()
        broker.stop()


async def pull_all(client: aio.PullClient, queue: MessageQueue, count: int, selector: Selector) -> int:
    """Pull the queue from its begin to its end; returns how many messages came."""
    offset = found = 0
    while offset < count:
        try:
            result = await client.pull(queue, offset, 32, selector, timeout=60)
        except (BrokerRefused, RouteMissing) as error:  # not compiled or not registered yet, or no time left now
            if isinstance(error, BrokerRefused) and error.code != ResponseCode.SYSTEM_BUSY:
                raise
            await asyncio.sleep(0.2)
            continue
        offset = result.next_offset
        if result.status is PullStatus.FOUND:
            found += len(decode_units(result.body))
    return found


async def registered(admin: aio.Admin) -> None:
    """Wait for the broker: it listens before it is registered."""
    for _ in range(600):
        if await admin.brokers():
            return
        await asyncio.sleep(0.1)


async def measure(broker: Ariane, server: int, count: int, rounds: int) -> list[dict[str, Any]]:
    """Microseconds a message, the lowest of some rounds."""
    rows: list[dict[str, Any]] = []
    options = {"name_servers": broker.namesrv}
    async with aio.Admin(**options) as admin:
        await registered(admin)
        await admin.create_topic(TOPIC, queues=1)
    async with aio.Producer("bench", **options) as producer:
        for start in range(0, count, 100):
            await producer.send_batch([message(number) for number in range(start, min(start + 100, count))])
    async with aio.PullClient(GROUP, **options) as client:
        (queue,) = await client.queues(TOPIC)
        for name, selector in cases().items():
            await pull_all(client, queue, min(count, 500), selector)  # compiles, and warms up
            figures = []
            for _ in range(rounds):
                before = cpu_seconds(broker.pid), cpu_seconds(server)
                assert await pull_all(client, queue, count, selector) == (count if name == "none" else count // 10)
                after = cpu_seconds(broker.pid), cpu_seconds(server)
                figures.append([(new - old) / count * 1e6 for old, new in zip(before, after, strict=True)])
            best = min(figures, key=sum)
            rows.append({"filter": name, "broker_us": round(best[0], 1), "filter_server_us": round(best[1], 1)})
    return rows


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.filters", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="ariane-filters-") as folder,
        processes(Path(folder) / "home") as (broker, server),
    ):
        rows = asyncio.run(measure(broker, server, options.count, options.rounds))
    if options.json:
        print(json.dumps(rows))
        return
    print(describe(), f"load {os.getloadavg()[0]:.1f}")
    for row in rows:
        print(f"{row['filter']:42} {row['broker_us']:>8} {row['filter_server_us']:>8}")


if __name__ == "__main__":
    main()
