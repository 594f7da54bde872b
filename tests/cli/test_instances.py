"""`ariane broker --instances`: several brokers from one configuration, as processes under one supervisor."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ariane import Message, Producer
from ariane.broker import BrokerOptions
from ariane.cli.servers.instances import check_instances, instance
from ariane.errors import ArianeError, ConfigError
from tests.cli.programs import Program, program, run
from tests.peers import free_port, until

SMALL = "mappedFileSizeCommitLog=1048576\nmaxIndexNum=1000\nmaxHashSlotNum=4000\ndiskMaxUsedSpaceRatio=95\n"
PATIENCE = 120.0


@contextmanager
def brokers(folder: Path) -> Iterator[tuple[Program, str]]:
    """A name server, and two instances with their files in the folder."""
    names = free_port()
    port = free_port(*[10 * number + offset for number in range(2) for offset in (-2, 0, 1)])
    conf = folder / "broker.conf"
    conf.write_text(
        f"brokerName=broker-a\nbrokerIP1=127.0.0.1\nlistenPort={port}\nnamesrvAddr=127.0.0.1:{names}\n"
        f"storePathRootDir={folder}/store\nlogFile={folder}/broker.log\n{SMALL}"
    )
    with (
        program(folder, "ariane", "namesrv", "--listen-port", str(names)) as server,
        program(folder, "ariane", "broker", "-c", str(conf), "--instances", "2") as running,
    ):
        server.await_text("127.0.0.1")
        try:
            yield running, f"127.0.0.1:{names}"
        finally:
            running.stop()


def children(pid: int) -> dict[int, int]:
    """Number of the instance and process id of each child."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"--instance" in words:
            found[int(words[words.index(b"--instance") + 1])] = int(child)
    return found


def names_served(producer: Producer, topic: str) -> set[str]:
    try:
        return {producer.send(Message(topic, b"paid")).queue.broker_name for _ in range(8)}
    except ArianeError:
        return set()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.slow
def test_instances_share_the_load_come_back_after_a_crash_and_end_together(tmp_path: Path) -> None:
    both = {"broker-a", "broker-a-1"}
    with brokers(tmp_path) as (running, namesrv), Producer("shop", name_servers=namesrv) as producer:
        numbers = iter(range(10_000))
        until(lambda: names_served(producer, f"orders-{next(numbers)}") == both, PATIENCE, "sends to both instances")
        topic = f"orders-{next(numbers)}"
        assert names_served(producer, topic) == both
        first = children(running.process.pid)
        os.kill(first[1], signal.SIGKILL)
        until(lambda: children(running.process.pid).get(1, first[1]) != first[1], PATIENCE, "the instance is started")
        assert children(running.process.pid)[0] == first[0]
        until(lambda: names_served(producer, topic) == both, PATIENCE, "the instance serves what it had before")
        assert sorted(path.name for path in tmp_path.glob("store*")) == ["store", "store-1"]
        assert (tmp_path / "broker-1.log").exists()
        last = children(running.process.pid)
        assert running.stop() == 0
        assert all(map(is_gone, last.values()))
        assert "Broker 1 ended with -9: starting it again" in running.printed()


@pytest.mark.slow
def test_instances_stop_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with brokers(tmp_path) as (running, _):
        until(lambda: len(children(running.process.pid)) == 2, PATIENCE, "two processes")
        pids = children(running.process.pid).values()
        running.process.kill()
        until(lambda: all(map(is_gone, pids)), PATIENCE, "both have stopped")


def test_only_what_two_processes_cannot_share_differs() -> None:
    text = (
        "brokerName=a\nstorePathRootDir=/d/store\nstorePathCommitLog=/fast/log\nlogFile=/log/b.log\nlistenPort=30911\n"
    )
    zero, one = (instance(BrokerOptions.load(text), number) for number in (0, 1))
    names = [option.name for option in zero.settings.table]
    assert {name for name in names if zero.settings[name] != one.settings[name]} == {
        "brokerName", "storePathRootDir", "storePathCommitLog", "logFile", "listenPort", "haListenPort",
        "metricsPromExporterPort",
    }  # fmt: skip
    assert (one.store_path_commit_log, one.ha_listen_port) == ("/fast/log-1", 30922)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listenPort=65530", "leaves no room"),
        ("brokerRole=SLAVE\nbrokerId=1\nhaMasterAddress=10.0.0.1:10912", "haMasterAddress"),
        ("enableDLegerCommitLog=true\ndLegerGroup=g\ndLegerSelfId=n0\ndLegerPeers=n0-127.0.0.1:40911", "DLedger"),
    ],
)
def test_what_cannot_run_side_by_side_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_instances(BrokerOptions.load(text), 2)


def test_a_number_that_makes_no_sense_is_refused() -> None:
    assert run("ariane", "broker", "--instances", "0").returncode == 2
