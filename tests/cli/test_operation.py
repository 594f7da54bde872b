"""Metrics, health and logs of servers as users start them."""

import json
import re
import signal
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.programs import Program, program, run
from tests.ops.scraping import parse, value
from tests.peers import until
from tests.peers.jvm import free_port

pytestmark = pytest.mark.slow  # starts programs


def page(address: str, path: str) -> str:
    with urlopen(f"http://{address}{path}", timeout=60) as answer:
        return str(answer.read().decode())


def metrics_address(server: Program) -> str:
    server.await_text("/metrics")
    [address] = re.findall(r"metrics +http://(\S+)/metrics", server.printed())
    return str(address)


def test_up_serves_metrics_of_its_own_messages_and_two_can_run(tmp_path: Path) -> None:
    arguments = ["up", "--namesrv-port", str(free_port()), "--broker-port", str(free_port(-2, 1))]
    others = ["up", "--namesrv-port", str(free_port()), "--broker-port", str(free_port(-2, 1)), "--no-first-message"]
    with (
        program(tmp_path, "ariane", *arguments, "--store", "one") as first,
        program(tmp_path, "ariane", *others, "--store", "two") as second,
    ):
        first.await_text("consumed")
        addresses = {metrics_address(first), metrics_address(second)}
        assert len(addresses) == 2
        samples = parse(page(metrics_address(first), "/metrics"))
        assert value(samples, "rocketmq_topic_number") > 0
        assert value(samples, "ariane_store_writable") == 1
        assert json.loads(page(metrics_address(second), "/ready"))["status"] == "ready"
        assert first.stop(signal.SIGTERM) == 0
        assert "Traceback" not in first.printed()


def test_servers_follow_their_configuration_in_metrics_and_logs(tmp_path: Path) -> None:
    names, broker = free_port(), free_port(-2, 1)
    (tmp_path / "namesrv.conf").write_text(
        f"listenPort = {names}\nkvConfigPath = {tmp_path}/kv.json\nmetricsExporterType = PROM\n"
        f"metricsPromExporterPort = 0\nlogFile = {tmp_path}/logs/namesrv.log\nlogFormat = json\n"
    )
    (tmp_path / "broker.conf").write_text(
        f"brokerName = broker-a\nbrokerIP1 = 127.0.0.1\nlistenPort = {broker}\nnamesrvAddr = 127.0.0.1:{names}\n"
        f"storePathRootDir = {tmp_path}/store\nmetricsExporterType = PROM\nmetricsPromExporterPort = 0\n"
        f"mappedFileSizeCommitLog = 4194304\nlogFile = {tmp_path}/logs/broker.log\n"
        f"adminLogFile = {tmp_path}/logs/admin.log\n"
    )
    with (
        program(tmp_path, "mqnamesrv", "-c", "namesrv.conf") as name_server,
        program(tmp_path, "mqbroker", "-c", "broker.conf") as server,
    ):
        assert "broker-a" in page(metrics_address(server), "/health")

        def is_registered() -> bool:
            return value(parse(page(metrics_address(name_server), "/metrics")), "ariane_namesrv_brokers") == 1

        until(is_registered, 60, "the broker in the name server's table")
        assert run("ariane", "send", "-n", f"127.0.0.1:{names}", "orders", "paid").returncode == 0
        assert run("ariane", "doctor", "-n", f"127.0.0.1:{names}").returncode == 0
        assert is_registered()
        assert server.stop() == 0
        assert name_server.stop() == 0
    assert "INFO    ariane.broker: broker broker-a is ready" in (tmp_path / "logs" / "broker.log").read_text()
    assert "ariane.broker" not in server.printed()
    assert (tmp_path / "logs" / "admin.log").exists()
    for line in (tmp_path / "logs" / "namesrv.log").read_text().splitlines():
        assert json.loads(line)["logger"].startswith("ariane.")
