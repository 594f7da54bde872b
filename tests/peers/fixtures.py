"""Pytest fixtures of the peers, and the last lines of a run: what was skipped, and why."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.peers import ApacheBroker, ApacheNamesrv, Build, Driver, PeersMissing, build
from tests.peers.jvm import Server
from tests.peers.servers import TLS, mqadmin_process


@pytest.fixture(scope="session")
def peers() -> Build:
    """Apache's jars and our driver, built; skips where there is no JDK or Maven, but not on CI."""
    try:
        return build()
    except PeersMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing).splitlines()[0])


@pytest.fixture(scope="session")
def java(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The session's JVM with Apache's client, speaking JSON headers."""
    yield from _driver(peers, tmp_path_factory, {})


@pytest.fixture(scope="session")
def java_binary(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A JVM whose client speaks binary headers (serialize type ROCKETMQ) and may have an IPv6 address in its keys."""
    props = {"rocketmq.serialize.type": "ROCKETMQ", "java.net.preferIPv4Stack": "false"}
    yield from _driver(peers, tmp_path_factory, props)


@pytest.fixture(scope="session")
def java_tls(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A JVM whose clients use TLS for every connection."""
    yield from _driver(peers, tmp_path_factory, {"tls.enable": "true"})


def _driver(peers: Build, folders: pytest.TempPathFactory, props: dict[str, str]) -> Iterator[Driver]:
    driver = Driver(peers, folders.mktemp("driver"), props)
    yield driver
    driver.close()


# Retries and delays after a second at every level, transactions checked each second: tests do not wait minutes.
QUICK = {
    "messageDelayLevel": " ".join(["1s"] * 18),
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 1000,
    "traceTopicEnable": "true",
}


@dataclass(frozen=True)
class ApacheCluster:
    """One Apache name server with one broker; `namesrv` is the address clients take."""

    server: ApacheNamesrv
    broker: ApacheBroker

    @property
    def namesrv(self) -> str:
        """The name server address."""
        return self.server.address


@pytest.fixture(scope="session")
def apache_cluster(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """The session's Apache cluster: shared, so use topics and groups of your own (`unique`), and never stop it."""
    with ApacheNamesrv(peers, tmp_path_factory.mktemp("namesrv"), props=TLS) as server:
        home = tmp_path_factory.mktemp("broker")
        with ApacheBroker(peers, home, server.address, config=QUICK, props=TLS) as broker:
            yield ApacheCluster(server, broker)


@pytest.fixture
def apache_namesrv(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ApacheNamesrv]]:
    """Starts name servers of the test's own: `apache_namesrv(config=..., props=...)`; gone at its end."""
    with ExitStack() as stack:

        def start(home: Path | None = None, **options: Any) -> ApacheNamesrv:
            folder = home or tmp_path_factory.mktemp("namesrv")
            return stack.enter_context(ApacheNamesrv(peers, folder, **options))

        yield start


@pytest.fixture
def apache_broker(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ApacheBroker]]:
    """Starts brokers of the test's own: `apache_broker(namesrv, store=..., config=...)`; gone at its end."""
    with ExitStack() as stack:

        def start(namesrv: str, home: Path | None = None, **options: Any) -> ApacheBroker:
            folder = home or tmp_path_factory.mktemp("broker")
            return stack.enter_context(ApacheBroker(peers, folder, namesrv, **options))

        yield start


@pytest.fixture
def java_with(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Driver]]:
    """Starts more driver JVMs: `java_with({"tls.enable": "true"})`; gone at the test's end."""
    with ExitStack() as stack:

        def start(props: dict[str, str] | None = None) -> Driver:
            driver = Driver(peers, tmp_path_factory.mktemp("driver"), props)
            stack.callback(driver.close)
            return driver

        yield start


@pytest.fixture
def mqadmin_alone(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts mqadmin as a process: `mqadmin_alone("startMonitoring", ...).await_line(...)`; killed at its end."""
    with ExitStack() as stack:

        def start(*args: str) -> Server:
            process = mqadmin_process(peers, tmp_path_factory.mktemp("mqadmin"), *args)
            stack.callback(process.kill)
            return process

        yield start


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Says last what was skipped, and why, so that nobody takes an unrun test for a passed one."""
    yield
    skipped = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if skipped:
        terminalreporter.section("skipped, and why")
        for reason, count in skipped.most_common():
            terminalreporter.write_line(f"{count:4d}  {reason}")


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
