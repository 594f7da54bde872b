"""Starting, awaiting and ending the JVMs of Apache's peers."""

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.peers.build import Build

# Netty and the store of 4.9.x reach into the JDK; Java 17 wants each door opened by name.
OPENS = [
    f"--add-opens=java.base/{p}=ALL-UNNAMED"
    for p in ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.lang", "java.util")
]
EXPORTS = [
    f"--add-exports=java.base/{p}=ALL-UNNAMED"
    for p in ("jdk.internal.ref", "sun.nio.ch", "sun.security.x509", "sun.security.util")
]
SMALL = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]

LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file>
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %-5level %logger{{0}} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


def until(ready: Callable[[], object], timeout: float, what: str) -> None:
    """Polls an outside process until `ready()` is true; fails with `what` when the deadline passes."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:g} s for {what}")
        pause.wait(0.03)


_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4
PORTS = range(11000 + 5000 * _PROCESS, 15990 + 5000 * _PROCESS)  # each test process has its own
_given: set[int] = set()  # ports that others were told of and may take any moment


def free_port(*neighbours: int) -> int:
    """A port that is free together with those at the given distances, e.g. `free_port(-2, 1)` for a broker.

    Taken below the range the kernel gives to outgoing connections, so that none of those lands on it meanwhile.
    """
    chance = random.SystemRandom()
    for _ in range(500):
        port = chance.randrange(PORTS.start, PORTS.stop)
        ports = {port + distance for distance in (0, *neighbours)}
        if not ports & _given and all(map(_is_free, ports)):
            _given.update(ports)
            return port
    raise OSError("no free port found")


def listening(port: int) -> bool:
    """Whether something accepts connections on this port of 127.0.0.1."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True


def java(build: Build, home: Path, flags: Sequence[str], props: Mapping[str, str], main: Sequence[str]) -> list[str]:
    """The command line of one peer, which writes nothing outside `home`."""
    own = {
        # With an IPv6 address first, the client makes unique keys of 56 digits instead of the usual 32.
        "java.net.preferIPv4Stack": "true",
        "user.home": home,
        "java.io.tmpdir": home / "tmp",
        "rocketmq.home.dir": home,
        "rocketmq.client.logUseSlf4j": "false",
        "rocketmq.client.logRoot": home / "logs",
    }
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    defines = [f"-D{name}={value}" for name, value in {**own, **props}.items()]
    return ["java", *SMALL, *flags, *OPENS, *EXPORTS, *defines, "-cp", build.classpath, *main]


def write_logback(home: Path, name: str) -> dict[str, str]:
    """Write the log settings that Apache's start-up classes demand; return the property that applies them sooner."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    path = home / "conf" / f"logback_{name}.xml"
    path.write_text(LOGBACK.format(log=home / "logs" / f"{name}.log"))
    return {"logback.configurationFile": str(path)}


class Server:
    """One Apache server process; `console` holds what it printed."""

    def __init__(self, name: str, home: Path, command: Sequence[str]) -> None:
        self.name = name
        self.home = home
        self.console = home / f"{name}.console"
        with self.console.open("wb") as console:
            self._process = subprocess.Popen(
                command, cwd=home, stdin=subprocess.PIPE, stdout=console, stderr=subprocess.STDOUT
            )

    @property
    def pid(self) -> int:
        """The process id, for whoever measures or torments it."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process.poll() is None

    def await_line(self, text: str, timeout: float = 120) -> None:
        """Waits until the server has printed `text`; fails with all it printed if it dies; kills it if it is late."""
        try:
            until(lambda: text in self.printed() or not self.running, timeout, f"{self.name} to say {text!r}")
        except TimeoutError:
            self.kill()
            raise
        if text not in self.printed():
            raise RuntimeError(f"{self.name} ended with {self._process.returncode}:\n{self.printed()[-3000:]}")

    def stop(self, timeout: float = 120) -> None:
        """A clean stop: SIGTERM, so that its shutdown hook flushes and unregisters."""
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        self._close_pipe()

    def kill(self) -> None:
        """kill -9."""
        if self.running:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._close_pipe()

    def _close_pipe(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def printed(self) -> str:
        """Its stdout and stderr so far."""
        return self.console.read_text(errors="replace")
