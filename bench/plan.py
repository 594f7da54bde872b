"""`python -m bench.plan`: measures the costs that `ariane plan` counts with, and checks the model in other cases.

Costs are measured at two sizes, without and with a consumer group, without and with a slave. The model then says what
messages of other sizes cost with other numbers of groups, and these cases are measured too. CPU seconds and bytes are
compared, never rates, so that a busy machine does not decide; all cases run in turn, in rounds.
"""

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ariane import ConsumeFrom, ConsumeStatus, Message, aio
from ariane.cli.plan.model import Costs, Workload, master_us, received_bytes, sent_bytes, slave_us, stored_bytes
from ariane.version import describe
from bench.brokers import Ariane
from bench.process import cpu_seconds

IN_FLIGHT = 500
WITHIN = 0.25
PATIENCE = 120.0


@dataclass(frozen=True)
class Case:
    """A size and readers; `known` cases give the costs, the others check the model."""

    size: int
    groups: int
    slave: bool
    known: bool = False

    @property
    def topic(self) -> str:
        return f"plan-{self.size:05}-{self.groups}"  # 12 bytes


@dataclass(frozen=True)
class Measured:
    """What one message cost."""

    master_us: float
    slave_us: float
    stored: float
    received: float
    sent: float


CASES = [
    *(Case(size, groups, slave, known=True) for slave in (False, True) for groups in (0, 1) for size in (128, 3072)),
    Case(1024, 0, slave=False),
    Case(1024, 2, slave=False),
    Case(2048, 1, slave=False),
    Case(1024, 1, slave=True),
    Case(2048, 0, slave=True),
]


class Site:
    """A broker alone, and a master with a slave."""

    def __init__(self, folder: Path) -> None:
        self.alone = Ariane(folder / "alone", "ASYNC_FLUSH")
        self.master = Ariane(folder / "master", "ASYNC_FLUSH")
        ha = int(self.master.address.rpartition(":")[2]) + 1
        more = f"brokerRole=SLAVE\nbrokerId=1\nhaMasterAddress=127.0.0.1:{ha}\n"
        self.slave = Ariane(folder / "slave", "ASYNC_FLUSH", more=more)

    def stop(self) -> None:
        for broker in (self.slave, self.master, self.alone):
            broker.stop()

    async def measure(self, case: Case, count: int) -> Measured:
        """Send messages, have each group consume them, and wait until all that follows from it is done."""
        broker = self.master if case.slave else self.alone
        got = [0] * case.groups
        async with AsyncExitStack() as clients:
            admin = await clients.enter_async_context(aio.Admin(name_servers=broker.namesrv))
            await admin.create_topic(case.topic, queues=8)
            producer = await clients.enter_async_context(aio.Producer("plan", name_servers=broker.namesrv))
            for number in range(case.groups):

                def consume(messages: list[object], _: object, number: int = number) -> ConsumeStatus:
                    got[number] += len(messages)
                    return ConsumeStatus.CONSUME_SUCCESS

                consumer = aio.PushConsumer(
                    f"{case.topic}-{number}", case.topic, consume, consume_from=ConsumeFrom.LAST, consume_batch=32,
                    name_servers=broker.namesrv,
                )  # fmt: skip
                await clients.enter_async_context(consumer)
            body = bytes(range(256)) * (case.size // 256) or bytes(case.size)
            while case.groups and not all(got):  # until the groups follow
                await producer.send(Message(case.topic, body))
                await asyncio.sleep(0.2)
            await self._settled(admin, broker, case)
            base, start = list(got), await _log_end(admin, broker.address)
            cpu, bytes_in, bytes_out = cpu_seconds(broker.pid), *_traffic(broker)
            slave_cpu = cpu_seconds(self.slave.pid)
            room = asyncio.Semaphore(IN_FLIGHT)

            async def send() -> None:
                async with room:
                    await producer.send(Message(case.topic, body))

            await asyncio.gather(*(send() for _ in range(count)))
            await _until(lambda: all(now - before >= count for now, before in zip(got, base, strict=True)))
            await self._settled(admin, broker, case)
            after = _traffic(broker)
            return Measured(
                (cpu_seconds(broker.pid) - cpu) / count * 1e6,
                (cpu_seconds(self.slave.pid) - slave_cpu) / count * 1e6 if case.slave else 0.0,
                (await _log_end(admin, broker.address) - start) / count,
                (after[0] - bytes_in) / count,
                (after[1] - bytes_out) / count,
            )

    async def _settled(self, admin: aio.Admin, broker: Ariane, case: Case) -> None:
        """Wait until the slave has all."""
        end = await _log_end(admin, broker.address)
        async with asyncio.timeout(PATIENCE):
            here = await _log_end(admin, self.slave.address) if case.slave else end
            while here < end:
                await asyncio.sleep(0.05)
                here = await _log_end(admin, self.slave.address)


async def _until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if done():
                return
            await asyncio.sleep(0.05)


async def _log_end(admin: aio.Admin, address: str) -> int:
    return int((await admin.broker_stats(address))["commitLogMaxOffset"])


def _traffic(broker: Ariane) -> tuple[int, int]:
    """Bytes that a broker received and sent over the connections that are open now, copies for slaves included."""
    port = int(broker.address.rpartition(":")[2])
    found = [0, 0]
    for one in (port, port + 1):
        shown = subprocess.run(["ss", "-tinH", "sport", "=", f":{one}"], capture_output=True, text=True, check=True)
        for index, name in enumerate(("bytes_received", "bytes_sent")):
            found[index] += sum(map(int, re.findall(rf"\b{name}:(\d+)", shown.stdout)))
    return found[0], found[1]


def workload(case: Case) -> Workload:
    """The case in the model's words; properties are those that our client adds."""
    return Workload(
        rate=1, size=case.size, groups=case.groups, replicas=2 if case.slave else 1, topic_length=len(case.topic)
    )


def fit(rows: dict[Case, Measured]) -> Costs:
    """The costs that explain the known cases: a line through two sizes for each part."""

    def line(small: float, large: float) -> tuple[float, float]:
        at = [rows[Case(size, 0, slave=False, known=True)].stored / 1024 for size in (128, 3072)]
        slope = max((large - small) / (at[1] - at[0]), 0.0)
        return small - slope * at[0], slope

    def cost(size: int, groups: int, slave: bool) -> Measured:
        return rows[Case(size, groups, slave, known=True)]

    sizes = (128, 3072)
    send = line(*(cost(size, 0, False).master_us for size in sizes))
    read = line(*(cost(size, 1, False).master_us - cost(size, 0, False).master_us for size in sizes))
    copy = line(*(cost(size, 0, True).master_us - cost(size, 0, False).master_us for size in sizes))
    slave = line(*(cost(size, 0, True).slave_us for size in sizes))
    return Costs(*send, *read, *copy, *slave)


def check(rows: dict[Case, Measured]) -> list[dict[str, object]]:
    """The model's figures beside the measured ones, for the cases that it was not made from."""
    costs = fit(rows)
    found = []
    for case, real in rows.items():
        load = workload(case)
        figures = {
            "master_us": (master_us(load, costs), real.master_us),
            "slave_us": (slave_us(load, costs), real.slave_us),
            "stored": (stored_bytes(load), real.stored),
            "received": (received_bytes(load, costs), real.received),
            "sent": (sent_bytes(load, costs), real.sent),
        }
        for name, (model, measured) in figures.items():
            if measured and (not case.known or name in ("received", "sent")):
                off = round(model / measured - 1, 3)
                row = {"case": vars(case), "figure": name, "model": round(model, 2), "measured": round(measured, 2)}
                found.append({**row, "off": off, "ok": abs(off) <= WITHIN})
    return found


async def run(folder: Path, count: int, rounds: int) -> dict[Case, Measured]:
    """Measure all cases in turn; the median of the rounds counts."""
    site = Site(folder)
    try:
        seen: dict[Case, list[Measured]] = {case: [] for case in CASES}
        for number in range(rounds + 1):  # the first one warms up
            for case in CASES:
                measured = await site.measure(case, count if number else count // 4)
                if number:
                    seen[case].append(measured)
                    print(number, case, measured, flush=True)
        names = Measured.__dataclass_fields__
        return {
            case: Measured(*(median(getattr(one, name) for one in all_of_it) for name in names))
            for case, all_of_it in seen.items()
        }
    finally:
        site.stop()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.plan", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="messages of a case (default 20,000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count (default 3)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ariane-plan-"))
    try:
        rows = asyncio.run(run(folder, options.count, options.rounds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    checked = check(rows)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "plan.json").write_text(json.dumps({"about": describe(), "costs": vars(fit(rows)), "rows": checked}))
    print(fit(rows))
    for row in checked:
        print(row)
    print(f"{sum(bool(row['ok']) for row in checked)} of {len(checked)} figures within {WITHIN:.0%}")


if __name__ == "__main__":
    main()
