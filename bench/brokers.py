"""The two brokers under test, started as their users start them: Apache's 4.9.7 and ours."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

from tests.peers.build import Build
from tests.peers.jvm import SMALL, Server, free_port, java, listening, until, write_logback
from tests.peers.servers import PLAIN, ApacheNamesrv

APACHE_FLAGS = [  # as Apache's own start script sets them
    "-server", "-Xms4g", "-Xmx4g", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30", "-XX:+AlwaysPreTouch", "-XX:MaxDirectMemorySize=15g",
]  # fmt: skip


class UnderTest(Protocol):
    """A broker with its name server."""

    name: str
    namesrv: str
    pid: int
    seconds_to_ready: float

    def stop(self) -> None: ...


def settings(port: int, namesrv: str, store: Path, flush: str) -> str:
    """One configuration file that both brokers read."""
    values = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "bench",
        "brokerIP1": "127.0.0.1",
        "listenPort": port,
        "namesrvAddr": namesrv,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "flushDiskType": flush,
        "defaultTopicQueueNums": 8,
        "diskMaxUsedSpaceRatio": 95,
        "waitTimeMillsInSendQueue": 20000,
        "osPageCacheBusyTimeOutMills": 20000,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


class Apache:
    """Apache's broker with the heap and collector of its start script."""

    name = "apache"

    def __init__(self, build: Build, home: Path, flush: str, *, more: str = "") -> None:
        self._names = ApacheNamesrv(build, home / "namesrv")
        self.namesrv = self._names.address
        port = free_port(-2, 1)
        self.address = f"127.0.0.1:{port}"
        broker = home / "broker"
        write_logback(broker, "broker")
        (broker / "broker.conf").write_text(settings(port, self.namesrv, broker / "store", flush) + more)
        main = ["ariane.peers.Server", "org.apache.rocketmq.broker.BrokerStartup", "-c", str(broker / "broker.conf")]
        started = time.monotonic()
        command = [word for word in java(build, broker, APACHE_FLAGS, PLAIN, main) if word not in SMALL]
        self._server = Server("broker", broker, command)
        self._server.await_line("boot success", timeout=120)
        self.seconds_to_ready = time.monotonic() - started
        self.pid = self._server.pid

    def stop(self) -> None:
        self._server.kill()
        self._names.kill()


class Ariane:
    """Our broker and name server as two processes, so that the broker's cost stands alone.

    The command is the one installed beside this Python, or the one that the variable ARIANE names.
    """

    name = "ariane"

    def __init__(self, home: Path, flush: str, *, namesrv: bool = True, more: str = "") -> None:
        home.mkdir(parents=True)
        port = free_port(-2, 1)
        self.address = f"127.0.0.1:{port}"
        self._names: subprocess.Popen[bytes] | None = None
        self.namesrv = self._start_names(home, free_port()) if namesrv else ""
        (home / "broker.conf").write_text(settings(port, self.namesrv, home / "store", flush) + more)
        started = time.monotonic()
        self._broker = start_ariane(home, "broker", ["-c", str(home / "broker.conf")])
        try:
            until(lambda: listening(port), 60, "our broker")
        except TimeoutError:
            self.stop()
            raise RuntimeError(f"our broker did not start:\n{(home / 'broker.log').read_text()[-3000:]}") from None
        self.seconds_to_ready = time.monotonic() - started
        self.pid = self._broker.pid

    def _start_names(self, home: Path, port: int) -> str:
        self._names = start_ariane(home, "namesrv", ["--listen-port", str(port)])
        until(lambda: listening(port), 30, "our name server")
        return f"127.0.0.1:{port}"

    def stop(self) -> None:
        processes = [process for process in (self._broker, self._names) if process is not None]
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def start_ariane(home: Path, what: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start a command of ours, as installed."""
    command = [os.environ.get("ARIANE", str(Path(sys.executable).parent / "ariane")), what, *arguments]
    with (home / f"{what}.log").open("wb") as log:
        return subprocess.Popen(command, cwd=home, stdout=log, stderr=subprocess.STDOUT)
