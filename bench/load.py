"""The sources of load, Apache's Java client and clients in Python: each one warm process that runs a case a line."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.peers.build import Build
from tests.peers.jvm import EXPORTS, OPENS

JAVA = Path(__file__).parent / "java" / "Load.java"
PYTHON = Path(__file__).parent / "client_load.py"


class Load:
    """A load process; `run` gives what it measured."""

    def __init__(self, command: list[str], world: dict[str, str] | None = None) -> None:
        self.started = time.perf_counter()
        """When the process was started."""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=world
        )

    @property
    def pid(self) -> int:
        """The process id, to tell the client's cost from others'."""
        return self._process.pid

    def run(self, case: str, **arguments: object) -> dict[str, Any]:
        """Run one case to its end; raises what the client said went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [case, *(f"{name}={value}" for name, value in arguments.items())]
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                result: dict[str, Any] = json.loads(line)
                if "error" in result:
                    raise RuntimeError(f"{case}: {result['error']}")
                return result
        raise RuntimeError(f"the load process ended during {case}")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def java_load(build: Build, home: Path) -> Load:
    """Apache's Java client."""
    classes = home / "classes"
    classes.mkdir(parents=True)
    subprocess.run(["javac", "--release", "17", "-cp", build.classpath, "-d", classes, JAVA], check=True)
    flags = ["-Xmx1g", f"-Duser.home={home}", "-Drocketmq.client.logUseSlf4j=false"]
    flags += [f"-Drocketmq.client.logRoot={home}", "-Djava.net.preferIPv4Stack=true"]
    # A client that may hold 65,535 unwritten one-way messages, its default, closes its own connection when a
    # heartbeat waits behind them for three seconds: what it loses then never reached a broker.
    flags += ["-Dcom.rocketmq.remoting.clientOnewaySemaphoreValue=4096"]
    return Load(["java", *flags, *OPENS, *EXPORTS, "-cp", f"{classes}:{build.classpath}", "Load"])


def python_load(python: str, kind: str, home: Path) -> Load:
    """A client in an interpreter of its own: `ours`, or the C++ `wrapper`."""
    home.mkdir(parents=True)
    return Load([python, str(PYTHON), kind], {"HOME": str(home), "PATH": "/usr/bin:/bin"})
