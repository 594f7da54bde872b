"""Worker processes: so many at a time, started again when they die or when the program changes."""

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from ariane.cli.screen import console

LOOK: Final = 0.5  # seconds between two looks at processes and files
PATIENCE: Final = 60.0  # seconds a worker gets to stop
QUICK_END: Final = 10.0  # seconds; a worker that ends sooner is started again later and later
LONGEST_PAUSE: Final = 30.0
_PR_SET_PDEATHSIG: Final = 1

Command = Callable[[int], list[str]]  # of the worker with this number


class Workers:
    """Runs a command several times and ends with a signal."""

    def __init__(
        self, name: str, command: Command, count: int, *, watched: Path | None = None, patience: float = PATIENCE
    ) -> None:
        self._name = name
        self._command = command
        self._count = count
        self._watched = watched
        self._patience = patience
        self._processes: list[subprocess.Popen[bytes]] = []
        self._begun = [0.0] * count
        self._pauses = [0.0] * count
        self._stopping = False

    def run(self) -> None:
        """Run until a signal comes; workers that die are started again."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        state = self._files()
        self._processes = [self._start(index) for index in range(self._count)]
        while not self._stopping:
            time.sleep(LOOK)
            if self._watched is not None and (now := self._files()) != state:
                state = now
                console.print("The program has changed: starting it again ...")
                self._end()
                self._processes = [self._start(index) for index in range(self._count)]
            for index in range(self._count):
                if self._watched is None and not self._stopping:  # a program that is being written may well end
                    self._look_after(index)
        self._end()

    def _look_after(self, index: int) -> None:
        """Start a worker again that has ended, but not at once if it keeps ending."""
        code = self._processes[index].poll()
        lived = time.monotonic() - self._begun[index]
        if code is None:
            if lived > QUICK_END:
                self._pauses[index] = 0.0
            return
        if lived < self._pauses[index]:
            return
        self._pauses[index] = min(LONGEST_PAUSE, self._pauses[index] * 2 + 1)
        console.print(f"{self._name} {index} ended with {code}: starting it again ...")
        self._processes[index] = self._start(index)

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        self._begun[index] = time.monotonic()
        linux = sys.platform == "linux"
        return subprocess.Popen(self._command(index), preexec_fn=end_with_parent if linux else None)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _end(self) -> None:
        """Ask the workers to stop, and wait for them; those that do not are killed."""
        for process in self._processes:
            process.terminate()
        deadline = time.monotonic() + self._patience
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                console.print(f"process {process.pid} did not stop in {self._patience:g} s and is killed")
                process.kill()
                process.wait()

    def _files(self) -> dict[Path, int]:
        """When each source file changed."""
        found: dict[Path, int] = {}
        for path in [] if self._watched is None else self._watched.rglob("*.py"):
            if not any(part.startswith(".") for part in path.relative_to(self._watched or path).parts):
                try:
                    found[path] = path.stat().st_mtime_ns
                except OSError:
                    continue  # it was deleted meanwhile
        return found


def end_with_parent() -> None:
    """Let the kernel stop this process when its parent is gone, however that ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
