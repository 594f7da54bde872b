"""Running the commands as users do: as processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.peers.jvm import until

BIN = Path(sys.executable).parent


class Program:
    """A running command; `printed()` is what it said so far."""

    def __init__(self, folder: Path, command: str, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        self._output = folder / f"{command}-{os.getpid()}-{id(self)}.log"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [str(BIN / command), *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environ or {})},
            )

    def printed(self) -> str:
        return self._output.read_text()

    def await_text(self, text: str, timeout: float = 120) -> None:
        until(lambda: text in self.printed() or self.process.poll() is not None, timeout, f"{text!r}")
        assert text in self.printed(), self.printed()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(120)


@contextmanager
def program(folder: Path, command: str, *arguments: str, environ: Mapping[str, str] | None = None) -> Iterator[Program]:
    """A command that is gone at the end, whatever happens."""
    running = Program(folder, command, *arguments, environ=environ)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def run(command: str, *arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command run to its end."""
    return subprocess.run(
        [str(BIN / command), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(environ or {})},
    )
