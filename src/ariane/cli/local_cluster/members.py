"""The processes of a cluster: start, probe and signal them, and find those that an earlier supervisor left."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from ariane.cli.local_cluster.layout import Member
from ariane.cli.workers import end_with_parent
from ariane.errors import ArianeError

STOP: Final = 30.0  # seconds a member gets to stop before it is killed
START: Final = 90.0  # seconds a member gets to be ready
LOOK: Final = 0.1


class MemberFailed(ArianeError):
    """A member ended or did not get ready; the text says where its log is."""


class Running:
    """A member with its process, if it has one."""

    def __init__(self, member: Member, folder: Path) -> None:
        self.member = member
        self.config = folder / member.name / f"{member.command}.conf"
        self.log = folder / member.name / "log"
        self._pid_file = folder / member.name / "pid"
        self._python = sys.executable
        self.process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(self, python: str | None = None) -> None:
        """Start the process; a configuration file that is there already is kept, so that it can be edited.

        `python` is the interpreter of another installation; it stays the member's until another is given.
        """
        self._python = python or self._python
        self.config.parent.mkdir(parents=True, exist_ok=True)
        if not self.config.exists():
            self.config.write_text("".join(f"{name}={value}\n" for name, value in self.member.options.items()))
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                self._python, "-m", "ariane", self.member.command, "-c", str(self.config),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )  # fmt: skip
        self._pid_file.write_text(f"{self.process.pid}\n")

    async def await_ready(self) -> None:
        """Return when its probe says ready: registered, and a slave follows its master, a member has a leader."""
        try:
            async with asyncio.timeout(START):
                while not await asyncio.to_thread(is_ready, self.member.metrics_port):
                    if not self.is_running:
                        raise MemberFailed(f"{self.member.name} ended at its start: {last_line(self.log)} ({self.log})")
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            raise MemberFailed(f"{self.member.name} is not ready after {START:g} s; look at {self.log}") from None

    async def stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal and wait for the end; SIGKILL follows when it does not come."""
        if self.process is None:
            return
        for one in (number, signal.SIGKILL):
            if not self.is_running:
                break
            self.process.send_signal(signal.SIGCONT)  # a stopped process handles no other signal than SIGKILL
            self.process.send_signal(one)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), STOP)
        self._pid_file.unlink(missing_ok=True)


def last_line(log: Path) -> str:
    """What a program said last: if it ended by an error, the reason."""
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1].removeprefix("ariane: ") if lines else "it said nothing"


def is_ready(metrics_port: int) -> bool:
    """Whether the readiness probe of a server on this machine answers 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def left_behind(folder: Path) -> list[int]:
    """Processes of the folder's members that run without a supervisor."""
    found = []
    for file in sorted(folder.glob("*/pid")):
        try:
            pid = int(file.read_text())
        except (OSError, ValueError):
            continue
        if str(file.parent) + os.sep in _command_line(pid):  # the number may be another program's by now
            found.append(pid)
    return found


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if sys.platform == "linux":
            return ""
    shown = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout
