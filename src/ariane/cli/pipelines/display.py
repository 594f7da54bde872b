"""Show the progress of a pipeline in a line that disappears at the end."""

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

Show = Callable[[str], None]
"""Reports progress."""


class SparkTasks(ProgressColumn):
    """Describe the finished tasks of the running stages."""

    max_refresh = 0.5

    def __init__(self, spark: Any) -> None:
        super().__init__()
        self._tracker = spark.sparkContext.statusTracker()

    def render(self, task: Task) -> Text:
        stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]  # a stage may have ended meanwhile
        if not known:
            return Text("")
        return Text(
            f"{sum(stage.numCompletedTasks for stage in known)} of {sum(stage.numTasks for stage in known)} tasks"
        )


@contextmanager
def display(err: Console, what: str, spark: Any) -> Iterator[Show]:
    """Show what Spark does; yields a function that reports more."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), SparkTasks(spark), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(what)
        yield lambda text: progress.update(task, description=f"{what}: {text}")


def follow(err: Console, query: Any, what: str, spark: Any) -> "Rows":
    """Show a query's progress until it ends or a signal stops it; return its totals."""
    rows = Rows()
    with display(err, what, spark) as show, _signals(rows):
        while not _is_over(query, rows):
            rows.take(query.recentProgress)
            last = query.lastProgress
            if last is not None:
                speed = last.processedRowsPerSecond or 0
                show(f"{rows.count:,} messages, {speed:,.0f} a second, {_behind(last)} behind")
        query.stop()
        rows.take(query.recentProgress)
        show(f"{rows.count:,} messages")
    return rows


def _is_over(query: Any, rows: "Rows") -> bool:
    """Wait for the query's end. After a signal, errors of Spark's workers are ignored: they got it too."""
    from pyspark.errors import StreamingQueryException

    try:
        return bool(query.awaitTermination(1)) or rows.stopped is not None
    except StreamingQueryException:
        if rows.stopped is None:
            raise
        return True


@contextmanager
def _signals(rows: "Rows") -> Iterator[None]:
    """Record SIGINT and SIGTERM instead of ending in the middle of a batch."""

    def note(number: int, _: object) -> None:
        rows.stopped = number

    if threading.current_thread() is not threading.main_thread():  # signal handlers run only there
        yield
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Rows:
    """Counts the rows of a query: Spark keeps only its latest reports."""

    def __init__(self) -> None:
        self.count = 0
        self.stopped: int | None = None  # by this signal
        self.observed: Counter[str] = Counter()
        """What the query counts beside, by `observe`."""
        self._batch = -1

    def take(self, reports: Any) -> None:
        for progress in reports:
            if progress.batchId > self._batch:
                self.count += progress.numInputRows
                for counted in progress.observedMetrics.values():
                    self.observed.update(counted.asDict())
                self._batch = progress.batchId


def _behind(progress: Any) -> str:
    from ariane.spark.progress import queue_lag

    try:
        return f"{sum(queue_lag(progress).values()):,}"
    except ValueError:  # a store's offsets are positions, not counts
        return "-"
