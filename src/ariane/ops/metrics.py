"""Families of figures, the registry that parts add theirs to, and Prometheus' text format.

A page may have hundreds of thousands of lines. It is built in slices of a few milliseconds between which the event
loop runs, and sent in pieces: the loop does not stall, and the page is never whole in memory.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, Protocol

log = logging.getLogger("ariane.ops")

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SLICE: Final = 0.003  # seconds of work on a page before the event loop gets its turn
LONGEST_LABEL: Final = 8192  # characters of a label value: some come from clients
PIECE: Final = 1 << 16  # characters after which a piece of the page is sent


class Metric(NamedTuple):
    """A family: what is measured, and by which labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Literal["gauge", "counter"] = "gauge"


Rows = Iterable[tuple[str, float]]
"""Labels as `label_text` makes them, and the value."""
Collected = Iterator[tuple[Metric, Rows] | None]
"""Families with their rows; None where the event loop may have a turn."""


class Source(Protocol):
    """A part that has figures."""

    @property
    def metrics(self) -> Iterable[Metric]:
        """The families that `collect` yields."""
        ...

    def collect(self) -> Collected: ...


def label_text(labels: Mapping[str, str]) -> str:
    """Labels in the text format, between the braces.

    >>> label_text({"topic": 'a"b', "group": "g"})
    'topic="a\\\\"b",group="g"'
    """
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    value = value[:LONGEST_LABEL]
    if '"' in value or "\\" in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


class Registry:
    """Every figure of a process.

    >>> registry = Registry()
    >>> registry.gauge("orders_open", "Orders that are open", lambda: 3)
    >>> print(registry.text(), end="")
    # HELP orders_open Orders that are open
    # TYPE orders_open gauge
    orders_open 3
    """

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._failed: list[Source] = []
        self._tables: dict[str, _Table] = {}

    def add(self, source: Source) -> None:
        """Add a part with several families."""
        self._sources.append(source)

    def gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """Add a figure that goes up and down."""
        self._sources.append(_Single(Metric(name, help), read))

    def counter(self, name: str, help: str, read: Callable[[], float]) -> None:
        """Add a figure that only grows; its name ends with `_total`."""
        self._sources.append(_Single(Metric(name, help, kind="counter"), read))

    def counters(self, name: str, help: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Add counts by one label. Several parts may add to the same family; equal label values are summed."""
        self._table(Metric(name, help, (label,), "counter"), read)

    def gauges(self, name: str, help: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Add figures that go up and down, by one label."""
        self._table(Metric(name, help, (label,)), read)

    def refusals(self, read: Callable[[], Mapping[str, float]]) -> None:
        """Add counts of refused requests by reason; every part that refuses any adds its own."""
        self.counters("ariane_requests_refused_total", "Requests refused, by reason", "reason", read)

    def _table(self, metric: Metric, read: Callable[[], Mapping[str, float]]) -> None:
        table = self._tables.get(metric.name)
        if table is None:
            table = self._tables[metric.name] = _Table(metric)
            self._sources.append(table)
        table.reads.append(read)

    @property
    def metrics(self) -> list[Metric]:
        """All families."""
        return [metric for source in self._sources for metric in source.metrics]

    def collect(self) -> Collected:
        """The rows of all families. A source that fails is left out and logged once; the others are shown."""
        for source in self._sources:
            try:
                yield from source.collect()
            except Exception:
                if source not in self._failed:
                    self._failed.append(source)
                    name = next(iter(source.metrics)).name
                    log.exception("figures that begin with %s cannot be read and are left out", name)

    def lines(self) -> Iterator[str]:
        """The page line by line; empty where the event loop may have a turn."""
        for found in self.collect():
            if found is None:
                yield ""
                continue
            metric, rows = found
            name = metric.name
            yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
            for labels, value in rows:
                text = value if type(value) is int else _number(value)
                yield f"{name}{{{labels}}} {text}\n" if labels else f"{name} {text}\n"

    def text(self) -> str:
        """The whole page at once, for tests and small servers."""
        return "".join(self.lines())

    async def pieces(self, clock: Callable[[], float] = time.perf_counter) -> AsyncIterator[bytes]:
        """The page in pieces; the event loop does other work between slices of it."""
        parts: list[str] = []
        size = 0
        began = clock()
        for line in self.lines():
            parts.append(line)
            size += len(line)
            if size >= PIECE:
                yield "".join(parts).encode(errors="replace")
                parts.clear()
                size = 0
            if clock() - began >= SLICE:
                await asyncio.sleep(0)
                began = clock()
        yield "".join(parts).encode(errors="replace")


class _Single:
    """A family of one figure."""

    def __init__(self, metric: Metric, read: Callable[[], float]) -> None:
        self.metrics = (metric,)
        self._read = read

    def collect(self) -> Collected:
        yield self.metrics[0], [("", self._read())]


class _Table:
    """A family with one label, filled by any number of parts."""

    def __init__(self, metric: Metric) -> None:
        self.metrics = (metric,)
        self.reads: list[Callable[[], Mapping[str, float]]] = []

    def collect(self) -> Collected:
        totals: dict[str, float] = {}
        for read in self.reads:
            for value, count in read().items():
                totals[value] = totals.get(value, 0) + count
        label = self.metrics[0].labels[0]
        yield self.metrics[0], [(label_text({label: value}), count) for value, count in sorted(totals.items())]


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
