"""Figures of the process and of its event loop, named as by Prometheus' own clients where these have a name."""

import asyncio
import os
import time
from collections import deque
from pathlib import Path
from typing import Final

from ariane.ops.metrics import Registry
from ariane.version import describe

EVERY: Final = 0.25  # seconds between two measurements of the event loop
WINDOW: Final = 240  # measurements: the last minute
_PROC: Final = Path("/proc/self")


class LoopLag:
    """Measures the lag of the event loop: the time that a request waits because others are served."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._recent: deque[float] = deque([0.0], maxlen=WINDOW)
        self.total = 0.0
        """Total lag of all measurements in seconds."""

    @property
    def longest(self) -> float:
        """The longest lag of the last minute, in seconds."""
        return max(self._recent)

    @property
    def last(self) -> float:
        """The last lag in seconds."""
        return self._recent[-1]

    def start(self) -> None:
        """Begin to measure."""
        self._task = asyncio.get_running_loop().create_task(self._measure(), name="measure the event loop")

    async def stop(self) -> None:
        """Stop measuring."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _measure(self) -> None:
        while True:
            due = time.monotonic() + EVERY
            await asyncio.sleep(EVERY)
            late = max(time.monotonic() - due, 0.0)
            self._recent.append(late)
            self.total += late


def add_process(registry: Registry, lag: LoopLag) -> None:
    """Add the figures that every server has."""
    started = time.time()
    registry.gauges("ariane_info", "The version that runs", "version", lambda: {describe(): 1})
    registry.gauge(
        "ariane_event_loop_lag_seconds", "Longest lag of the event loop in the last minute", lambda: lag.longest
    )
    registry.counter("ariane_event_loop_lag_seconds_total", "Lag of the event loop, summed", lambda: lag.total)
    registry.gauge("process_start_time_seconds", "When the process started, since the epoch", lambda: started)
    registry.counter("process_cpu_seconds_total", "CPU time of the process", time.process_time)
    if (_PROC / "statm").exists():
        registry.gauge("process_resident_memory_bytes", "Resident memory", _resident)
        registry.gauge("process_open_fds", "Open files and connections", lambda: len(os.listdir(_PROC / "fd")))
    registry.gauge("process_max_fds", "Open files and connections allowed", _most_files)


def _resident() -> int:
    return int((_PROC / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _most_files() -> float:
    try:
        import resource
    except ImportError:  # not on Windows
        return float("inf")
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf") if soft == resource.RLIM_INFINITY else soft
