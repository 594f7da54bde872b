"""The runbook of a move by a slave: from a master of Apache's to one of Ariane's and back, under load."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ariane import Admin
from ariane.cli.local_cluster.members import is_ready
from tests.cli.programs import Program, program, run
from tests.peers import ApacheBroker, free_port, until
from tests.runbooks.load import PATIENCE, Load

pytestmark = pytest.mark.slow

SMALL = {"mappedFileSizeCommitLog": 1 << 22, "maxHashSlotNum": 4000, "maxIndexNum": 1000}
QUIET = ("--quiet", "2")  # the clients here refresh their routes each second


class Site:
    """A name server and broker-b of Ariane; broker-a is the one that moves."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self._folder = folder
        self._running = running
        names = free_port()
        self.namesrv = f"127.0.0.1:{names}"
        running.enter_context(program(folder, "ariane", "namesrv", "--listen-port", str(names))).await_text("127.0.0.1")
        self.start("broker-b", brokerName="broker-b")

    def start(self, name: str, **options: object) -> tuple[Program, str]:
        """A broker of Ariane, and its address."""
        port, metrics = free_port(-2, 1), free_port()
        known = {
            **SMALL, "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1", "listenPort": port,
            "namesrvAddr": self.namesrv, "storePathRootDir": self._folder / name,
            "metricsExporterType": "PROM", "metricsPromExporterPort": metrics,
        }  # fmt: skip
        conf = self._folder / f"{name}.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in {**known, **options}.items()))
        broker = self._running.enter_context(program(self._folder, "ariane", "broker", "-c", str(conf)))
        until(lambda: is_ready(metrics), PATIENCE, f"{name} is ready")
        return broker, f"127.0.0.1:{port}"

    def ariane(self, *words: str) -> None:
        done = run("ariane", *words, environ={"NAMESRV_ADDR": self.namesrv})
        assert done.returncode == 0, done.stdout + done.stderr

    def log_ends(self, *addresses: str) -> set[str]:
        with Admin(name_servers=self.namesrv) as admin:
            return {admin.broker_stats(address)["commitLogMaxOffset"] for address in addresses}


def test_a_master_of_apaches_is_replaced_by_its_slave_and_back_without_a_failed_send(
    apache_broker: Callable[..., ApacheBroker], tmp_path: Path
) -> None:
    with ExitStack() as running:
        site = Site(tmp_path, running)
        apache = apache_broker(site.namesrv, config={**SMALL, "brokerName": "broker-a"})
        site.ariane("topic", "create", "moved", "--queues", "2")
        with Load(site.namesrv, "moved") as load:
            load.await_sends_to("broker-a", "broker-b")
            ours, address = site.start("broker-a-s", brokerName="broker-a", brokerRole="SLAVE", brokerId=1)
            site.ariane("broker", "drain", "broker-a", "--yes", "--wait", *QUIET)
            apache.stop()
            site.ariane("broker", "promote", address, "--yes")
            load.await_sends_to("broker-a", "broker-b")

            back = apache_broker(
                site.namesrv,
                store=apache.store,
                config={**SMALL, "brokerName": "broker-a", "brokerRole": "SLAVE", "brokerId": 1},
            )
            site.ariane("broker", "drain", "broker-a", "--yes", "--wait", *QUIET)
            until(lambda: len(site.log_ends(address, back.address)) == 1, PATIENCE, "Apache's slave has the log")
            assert ours.stop() == 0
            back.stop()
            back.restart(brokerRole="ASYNC_MASTER", brokerId=0)
            load.await_sends_to("broker-a", "broker-b")
