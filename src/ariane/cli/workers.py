"""Worker processes of an application: so many at a time, started again when they die or when the program changes."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Final

from ariane.cli.screen import console

LOOK: Final = 0.5  # seconds between two looks at processes and files
PATIENCE: Final = 60.0  # seconds a worker gets to stop
QUICK_END: Final = 10.0  # seconds; a worker that ends sooner is started again later and later
LONGEST_PAUSE: Final = 30.0
_COMMAND: Final = "import sys; from ariane.cli import main; sys.argv[0] = 'ariane'; main()"


class Workers:
    """Runs `ariane app run` several times and ends with a signal."""

    def __init__(self, arguments: list[str], count: int, first_port: int | None, watched: Path | None) -> None:
        self._arguments = arguments
        self._count = count
        self._first_port = first_port
        self._watched = watched
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
        console.print(f"Worker {index} ended with {code}: starting it again ...")
        self._processes[index] = self._start(index)

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        self._begun[index] = time.monotonic()
        port = [] if self._first_port is None else ["--health-port", str(self._first_port + index)]
        if self._first_port == 0:
            port = ["--health-port", "0"]
        return subprocess.Popen([sys.executable, "-c", _COMMAND, "app", "run", *self._arguments, *port])

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _end(self) -> None:
        """Ask the workers to stop, and wait for them; those that do not are killed."""
        for process in self._processes:
            process.terminate()
        deadline = time.monotonic() + PATIENCE
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                console.print(f"worker {process.pid} did not stop in {PATIENCE:g} s and is killed")
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
