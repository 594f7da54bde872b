"""`python -m bench.guarantee`: what the guarantee costs, beside plain sending and consuming, and where the time goes.

Every case runs against our broker in a process of its own, on each database that can be had here.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from ariane import Admin, ConsumeFrom, ConsumeStatus, Message, Producer, PushConsumer
from ariane.guarantee import Guarantee
from ariane.guarantee.threads import _Drive
from tests.guarantee.servers import Broker, MariaDB, NameServer, Postgres, Redis, ServerMissing
from tests.peers import until

RESULTS = Path(__file__).parent / "results"
BODY = bytes(128)
THREADS = 16


def rate(count: int, work: Callable[[], object]) -> float:
    """Messages a second."""
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def in_threads(count: int, one: Callable[[], object]) -> None:
    """Call something so many times, from many threads."""
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(one) for _ in range(count)]:
            done.result()


def topic_of(admin: Admin, name: str) -> str:
    """A new topic."""
    admin.create_topic(name, queues=4)
    return name


def plain(namesrv: str, admin: Admin, count: int) -> dict[str, float]:
    """The client alone."""
    topic = topic_of(admin, "plain")
    with Producer("bench", name_servers=namesrv) as producer:
        one = rate(count, lambda: [producer.send(Message(topic, BODY)) for _ in range(count)])
        many = rate(count, lambda: in_threads(count, lambda: producer.send(Message(topic, BODY))))
    counter = Counting(2 * count)

    def listen(messages: list[Any]) -> ConsumeStatus:
        counter.add(len(messages))
        return ConsumeStatus.CONSUME_SUCCESS

    started = time.perf_counter()
    with PushConsumer("plain", topic, listen, name_servers=namesrv, consume_from=ConsumeFrom.FIRST, threads=THREADS):
        counter.wait()
        consumed = 2 * count / (time.perf_counter() - started)
    return {"send, 1 thread": one, f"send, {THREADS} threads": many, f"consume, {THREADS} threads": consumed}


class Counting:
    """Waits until so many messages came."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._seen = 0
        self._lock = threading.Lock()
        self._all = threading.Event()

    def add(self, count: int) -> None:
        """Some came."""
        with self._lock:
            self._seen += count
            if self._seen >= self._wanted:
                self._all.set()

    def wait(self) -> None:
        """Until all came."""
        assert self._all.wait(600)


class Times:
    """How long each kind of step of a delivery took."""

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure every step meanwhile."""
        take = _Drive._take
        times = self._times

        def timed(drive: _Drive, step: Any) -> Any:
            kind = type(step).__name__.lower()
            name = {"query": "statements", "acquire": "token", "work": "handler"}
            started = time.perf_counter()
            try:
                return take(drive, step)
            finally:
                times[name.get(kind, kind)].append(time.perf_counter() - started)

        _Drive._take = timed  # type: ignore[method-assign]
        try:
            yield
        finally:
            _Drive._take = take  # type: ignore[method-assign]

    def milliseconds(self, messages: int) -> dict[str, float]:
        """Of a delivery, by kind of step."""
        return {kind: sum(times) / messages * 1000 for kind, times in sorted(self._times.items())}


def guaranteed(url: str, cache: str | None, namesrv: str, admin: Admin, count: int, name: str) -> dict[str, Any]:
    """Stub and send, then consume and confirm."""
    topic = topic_of(admin, name)
    guarantee = Guarantee(
        url, cache=cache, consumers={topic: name}, name_servers=namesrv, resend=False, resend_after=3600
    )
    guarantee.migrate()

    def stage() -> None:
        with Session(guarantee.engine) as session, session.begin():
            guarantee.stage(session, topic, BODY)

    def sent() -> bool:
        return sum(admin.max_offset(queue) for queue in admin.queues(topic)) >= 3 * count

    with guarantee:
        plain_form = rate(count, lambda: [guarantee.send(topic, BODY) for _ in range(count)])
        staged_one = rate(count, lambda: [stage() for _ in range(count)])
        staged_many = rate(count, lambda: in_threads(count, stage))
        until(sent, 600, "all sends")
    counter = Counting(3 * count)

    def handle(message: Any, session: Session) -> None:
        counter.add(1)

    times = Times()
    started = time.perf_counter()
    with times.measured(), PushConsumer(
        name, topic, guarantee.listener(handle), name_servers=namesrv, consume_from=ConsumeFrom.FIRST, threads=THREADS
    ):  # fmt: skip
        counter.wait()
        consumed = 3 * count / (time.perf_counter() - started)
    guarantee.close()
    return {
        "stub, then send, 1 thread": plain_form,
        "stage and commit, 1 thread": staged_one,
        f"stage and commit, {THREADS} threads": staged_many,
        f"consume and confirm, {THREADS} threads": consumed,
        "milliseconds of a delivery": times.milliseconds(3 * count),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    count, rounds = parser.parse_args().count, parser.parse_args().rounds
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number in range(rounds):
        with ExitStack() as stack:
            names = stack.enter_context(NameServer())
            stack.enter_context(Broker(names.address))
            admin = stack.enter_context(Admin(name_servers=names.address))
            until(admin.masters, 60, "the broker")
            print("  no guarantee", flush=True)
            found["no guarantee"].append(plain(names.address, admin, count))
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            databases = {"SQLite": f"sqlite:///{folder}/bench.db"}
            for kind, server, scheme in (
                ("PostgreSQL", Postgres, "postgresql+psycopg"),
                ("MariaDB", MariaDB, "mariadb+pymysql"),
            ):
                try:
                    databases[kind] = f"{scheme}://{stack.enter_context(server()).server}"
                except ServerMissing as missing:
                    print(f"without {kind}: {missing}")
            redis = stack.enter_context(Redis())
            for kind, url in databases.items():
                for what, cache in ((kind, None), (f"{kind} and Redis", redis.url)):
                    name = what.replace(" ", "-").lower()
                    print(f"  {what}", flush=True)
                    found[what].append(guaranteed(url, cache, names.address, admin, count, name))
        print(f"round {number + 1} of {rounds}", flush=True)
    report = {what: _medians(results) for what, results in found.items()}
    for what, figures in report.items():
        print(f"\n{what}")
        for case, value in figures.items():
            if isinstance(value, dict):
                print(f"  {case}: " + ", ".join(f"{part} {ms:.2f}" for part, ms in value.items()))
            else:
                print(f"  {case:36} {value:9,.0f} a second")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "guarantee.json").write_text(json.dumps(report, indent=2) + "\n")


def _medians(results: list[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for case, first in results[0].items():
        if isinstance(first, dict):
            merged[case] = {part: statistics.median(r[case].get(part, 0.0) for r in results) for part in first}
        else:
            merged[case] = statistics.median(result[case] for result in results)
    return merged


if __name__ == "__main__":
    main()
