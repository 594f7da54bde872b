"""Apache's name server and broker, 4.9.7, each with folders and ports of its own."""

import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.frame import encode
from tests.peers.build import Build
from tests.peers.jvm import Server, free_port, java, listening, until, write_logback

MAIN = "ariane.peers.Server"
# A server that may speak TLS makes itself a certificate first, two seconds long; pass `props=TLS` where it is wanted.
PLAIN = {"tls.server.mode": "disabled"}
TLS = {"tls.server.mode": "permissive"}


class _Running:
    """What both servers share: stop, kill, and use as a context manager."""

    server: Server

    def stop(self) -> None:
        """Stops it cleanly (SIGTERM) and waits until it is gone."""
        self.server.stop()

    def kill(self) -> None:
        """kill -9."""
        self.server.kill()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.server.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class ApacheNamesrv(_Running):
    """A running Apache name server; `address` is what clients take as name server address."""

    def __init__(
        self,
        build: Build,
        home: Path,
        *,
        port: int | None = None,
        config: Mapping[str, object] | None = None,
        props: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        write_logback(home, "namesrv")
        settings = {"listenPort": self.port, "kvConfigPath": home / "kvConfig.json", **(config or {})}
        _write_properties(home / "namesrv.conf", settings)
        main = [MAIN, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(home / "namesrv.conf")]
        self.server = Server("namesrv", home, java(build, home, ["-Xms64m", "-Xmx192m"], props or PLAIN, main))
        self.server.await_line("boot success")
        until(lambda: listening(self.port), 60, "the name server's port")


class ApacheBroker(_Running):
    """A running Apache broker, registered with its name server.

    `store` may be a folder that another broker, Apache's or ours, has written and left. `config` overrides any line of
    broker.conf; `files` are more files of its home, e.g. `{"conf/plain_acl.yml": "..."}`.
    """

    def __init__(
        self,
        build: Build,
        home: Path,
        namesrv: str,
        *,
        store: Path | None = None,
        port: int | None = None,
        config: Mapping[str, object] | None = None,
        props: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        self._build, self.home, self._props = build, home, dict(props or PLAIN)
        self.store = store or home / "store"
        self.port = port or free_port(-2, 1)
        self.address = f"127.0.0.1:{self.port}"
        self.config = _broker_config(self.port, namesrv, self.store, config or {})
        self.name = str(self.config["brokerName"])
        self.cluster = str(self.config["brokerClusterName"])
        write_logback(home, "broker")
        for name, text in (files or {}).items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        self._launch()

    def restart(self, **config: object) -> None:
        """Starts it again after `stop()` or `kill()`, on the same store and port, with some settings changed."""
        self.config.update(config)
        self._launch()

    def await_dispatch(self) -> None:
        """Wait until all that was stored is in its queues and in the index, which Apache's broker does a bit later."""
        until(lambda: b'"dispatchBehindBytes":"0"' in _runtime_info(self.port), 60, "the broker's dispatch")

    def _launch(self) -> None:
        self.store.mkdir(parents=True, exist_ok=True)
        _write_properties(self.home / "broker.conf", self.config)
        main = [MAIN, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(self.home / "broker.conf")]
        flags = ["-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=1g"]
        self.server = Server("broker", self.home, java(self._build, self.home, flags, self._props, main))
        self.server.await_line("boot success", timeout=150)
        until(lambda: _has_statistics(self.port), 60, "the broker's statistics")


def _has_statistics(port: int) -> bool:
    """Whether the broker has sampled itself; in its first second it answers GET_BROKER_RUNTIME_INFO with a failure."""
    return b"NoSuchElementException" not in _runtime_info(port)


def _runtime_info(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection, connection.makefile("rb") as answers:
        connection.sendall(encode(Command(RequestCode.GET_BROKER_RUNTIME_INFO)))
        length = int.from_bytes(answers.read(4), "big")
        return answers.read(length)


def mqadmin_process(build: Build, home: Path, *args: str) -> Server:
    """mqadmin as a process of its own, e.g. `startMonitoring`, which lives until it is killed; see its `console`."""
    main = [MAIN, "org.apache.rocketmq.tools.command.MQAdminStartup", *args]
    return Server("mqadmin", home, java(build, home, ["-Xmx192m"], write_logback(home, "tools"), main))


def _broker_config(port: int, namesrv: str, store: Path, changes: Mapping[str, object]) -> dict[str, object]:
    return {
        "brokerClusterName": "DefaultCluster",
        "brokerName": f"apache-{port}",
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": port,
        "namesrvAddr": namesrv,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "mappedFileSizeCommitLog": 104857600,
        "maxIndexNum": 1000,
        "maxHashSlotNum": 4000,
        "enablePropertyFilter": "true",
        "diskMaxUsedSpaceRatio": 95,
        "deleteWhen": "04",
        # A busy test machine is no reason to refuse messages.
        "osPageCacheBusyTimeOutMills": 20000,
        "waitTimeMillsInSendQueue": 20000,
        **changes,
    }


def _write_properties(path: Path, settings: Mapping[str, object]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
