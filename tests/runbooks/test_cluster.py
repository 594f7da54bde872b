"""The runbooks of docs/runbooks.md for masters and slaves, on processes, while clients send and consume."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import ariane
from ariane import Admin, LitePullConsumer
from tests.cli.programs import program, run
from tests.cli.test_local_cluster import cluster, states
from tests.peers import free_port, until
from tests.runbooks.load import PATIENCE, Load

pytestmark = pytest.mark.slow

QUIET = ("--quiet", "2")  # the clients here refresh their routes each second
NEW_VERSION = "99.0.0"


@dataclass
class Site:
    """A running cluster of layout 2m-2s-sync, and the commands of an operator."""

    folder: Path
    namesrv: str

    def ariane(self, *words: str) -> str:
        """Run a command that must succeed."""
        done = run("ariane", *words, environ={"NAMESRV_ADDR": self.namesrv})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def member(self, *words: str) -> None:
        self.ariane("cluster", *words, "--folder", str(self.folder / "c"))

    def log_ends(self, broker: str) -> set[str]:
        """The ends of the logs of a broker's master and slaves."""
        with Admin(name_servers=self.namesrv) as admin:
            addresses = admin.cluster_info().broker_addr_table[broker].broker_addrs
            assert len(addresses) == 2
            return {admin.broker_stats(address)["commitLogMaxOffset"] for address in addresses.values()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with cluster(folder, "2m-2s-sync") as (_, namesrv):
        yield Site(folder, namesrv)


def another_build(folder: Path) -> Path:
    """A Python that runs a copy of the package with another version, as a second virtual environment would."""
    shutil.copytree(Path(ariane.__file__).parent, folder / "ariane", ignore=shutil.ignore_patterns("__pycache__"))
    info = folder / f"ariane-{NEW_VERSION}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ariane\nVersion: {NEW_VERSION}\n")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_brokers_are_restarted_upgraded_and_get_a_new_disk_without_a_failed_send(site: Site, tmp_path: Path) -> None:
    new = ("--python", str(another_build(tmp_path)))
    with Load(site.namesrv, "rolling") as load:
        load.await_sends_to("broker-a", "broker-b")
        site.ariane("broker", "drain", "broker-a", "--yes", "--wait", *QUIET)
        site.member("kill", "broker-a-s")  # its disk has died: an empty one takes its place
        shutil.rmtree(site.folder / "c" / "broker-a-s" / "store")
        site.member("restart", "broker-a-s")
        until(lambda: len(site.log_ends("broker-a")) == 1, PATIENCE, "the slave has all of the log")
        site.member("restart", "broker-a")
        load.await_sends_to("broker-a", "broker-b")
        site.ariane("broker", "drain", "broker-b", "--yes", "--wait", *QUIET)
        assert len(site.log_ends("broker-b")) == 1
        for member in ("broker-b-s", "broker-b"):
            site.member("restart", member, *new)
        load.await_sends_to("broker-a", "broker-b")
    printed = {name: Path(row["log"]).read_text() for name, row in states(site.folder).items()}
    assert {name for name, text in printed.items() if NEW_VERSION in text} == {"broker-b", "broker-b-s"}
    site.member("stop", "broker-a-s")
    copy = str(site.folder / "c" / "broker-a-s" / "store")
    assert "all is well" in site.ariane("store", "verify", copy, "--slots", "50000", "--entries", "200000")
    site.member("restart", "broker-a-s")


def test_a_topic_grows_and_shrinks_without_loss(site: Site) -> None:
    site.ariane("topic", "create", "elastic", "--queues", "2")
    with Load(site.namesrv, "elastic") as load:
        site.ariane("topic", "grow", "elastic", "6")
        until(lambda: max(load.queues) == 5, PATIENCE, "sends to the new queues")
        site.ariane("topic", "shrink", "elastic", "3", *QUIET)
        load.queues.clear()
        load.await_sends_to("broker-a", "broker-b")
        assert load.queues == {0, 1, 2}
        described = json.loads(site.ariane("topic", "describe", "elastic", "--json"))
        assert {(one["readQueueNums"], one["writeQueueNums"]) for one in described["brokers"]} == {(3, 3)}


def test_a_broker_joins_and_leaves_without_loss(site: Site, tmp_path: Path) -> None:
    port = free_port(-2, 1)
    conf = tmp_path / "broker-c.conf"
    text = (site.folder / "c" / "broker-a" / "broker.conf").read_text().splitlines()
    changes = {
        "brokerName": "broker-c",
        "brokerRole": "ASYNC_MASTER",
        "listenPort": str(port),
        "metricsExporterType": "DISABLE",
        "storePathRootDir": str(tmp_path / "store"),
    }
    kept = [line for line in text if line.partition("=")[0] not in changes]
    conf.write_text("\n".join([*kept, *(f"{name}={value}" for name, value in changes.items())]) + "\n")
    with Load(site.namesrv, "moving") as load:
        load.await_sends_to("broker-a", "broker-b")
        with program(tmp_path, "ariane", "broker", "-c", str(conf)) as joining:
            joining.await_text("tells clients")
            site.ariane("broker", "copy-topics", "broker-a", "broker-c")
            load.await_sends_to("broker-a", "broker-b", "broker-c")
            site.ariane("broker", "drain", "broker-c", "--yes", "--wait", "--consumed", *QUIET)
            load.await_sends_to("broker-a", "broker-b")
            assert joining.stop() == 0
        known = site.ariane("broker", "status")
        assert "broker-b" in known
        assert "broker-c" not in known


def test_a_backup_of_a_running_broker_is_restored_and_serves_every_acknowledged_message(
    site: Site, tmp_path: Path
) -> None:
    backups = site.folder / "backups"
    with Load(site.namesrv, "kept") as load:
        load.await_sends_to("broker-a", "broker-b")
        acknowledged = set(load.sent)
        for broker in ("broker-a", "broker-b"):
            site.ariane("store", "backup", str(site.folder / "c" / broker / "store"), str(backups / broker))
        load.await_sends_to("broker-a", "broker-b")  # nobody noticed
    with ExitStack() as running:
        names = free_port()
        running.enter_context(program(tmp_path, "ariane", "namesrv", "--listen-port", str(names)))
        for broker in ("broker-a", "broker-b"):
            store = tmp_path / broker
            site.ariane("store", "restore", str(backups / broker), str(store))
            conf = tmp_path / f"{broker}.conf"
            conf.write_text(
                f"brokerName={broker}\nbrokerIP1=127.0.0.1\nlistenPort={free_port(-2, 1)}\nmaxHashSlotNum=50000\n"
                f"namesrvAddr=127.0.0.1:{names}\nstorePathRootDir={store}\nmaxIndexNum=200000\n"
            )
            running.enter_context(program(tmp_path, "ariane", "broker", "-c", str(conf))).await_text("tells clients")
        found: set[bytes] = set()
        namesrv = f"127.0.0.1:{names}"
        with Admin(name_servers=namesrv) as admin, LitePullConsumer("reader", name_servers=namesrv) as reader:
            until(lambda: len(admin.masters()) == 2, PATIENCE, "both restored brokers")
            queues = admin.queues("kept")
            assert {queue.broker_name for queue in queues} == {"broker-a", "broker-b"}
            reader.assign(queues)
            for queue in queues:
                reader.seek(queue, 0)

            def all_there() -> bool:
                found.update(message.body for message in reader.poll(timeout=1.0))
                return found >= acknowledged

            until(all_there, PATIENCE, "every message that was acknowledged before the backup")
            assert load.group in admin.group_names()
