"""`ariane cluster up` and its commands, on real processes."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ariane import Message, Producer
from ariane.cli.local_cluster.control import up
from ariane.cli.local_cluster.layout import LayoutName
from ariane.errors import ConfigError
from tests.cli.programs import Program, program, run
from tests.peers import free_port, until

pytestmark = pytest.mark.slow
BROKERS = [10 * number + port for number in range(4) for port in (-2, 0, 1, 4, 5)]


@contextmanager
def cluster(folder: Path, layout: str) -> Iterator[tuple[Program, str]]:
    """A cluster of processes that is ready, and its name server; `down` ends it whatever happens."""
    namesrv, broker = free_port(), free_port(-4, *BROKERS)
    options = ("--folder", str(folder / "c"), "--namesrv-port", str(namesrv), "--broker-port", str(broker))
    with program(folder, "ariane", "cluster", "up", "--layout", layout, *options) as running:
        try:
            running.await_text("All members are ready")
            yield running, f"127.0.0.1:{namesrv}"
        finally:
            run("ariane", "cluster", "down", "--folder", str(folder / "c"))


def states(folder: Path) -> dict[str, Any]:
    shown = run("ariane", "cluster", "status", "--json", "--folder", str(folder / "c"))
    assert shown.returncode == 0, shown.stderr
    return {row["member"]: row for row in json.loads(shown.stdout)}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_member_is_killed_and_restarted_and_all_end_with_down(tmp_path: Path) -> None:
    with cluster(tmp_path, "2m-2s-sync") as (running, namesrv):
        before = states(tmp_path)
        assert {row["state"] for row in before.values()} == {"ready"}
        assert [row["role"] for row in before.values()] == ["name server", *["SYNC_MASTER", "SLAVE"] * 2]
        with Producer("up", name_servers=namesrv) as producer:
            assert producer.send(Message("orders", b"paid")).status.name == "SEND_OK"
            folder = ("--folder", str(tmp_path / "c"))
            assert run("ariane", "cluster", "kill", "broker-a-s", *folder).returncode == 0
            assert states(tmp_path)["broker-a-s"]["state"] == "down"
            assert run("ariane", "cluster", "restart", "broker-a-s", *folder).returncode == 0
            after = states(tmp_path)
            assert after["broker-a-s"]["state"] == "ready"
            assert after["broker-a-s"]["pid"] != before["broker-a-s"]["pid"]
            unknown = run("ariane", "cluster", "kill", "broker-x", *folder)
            assert "there are namesrv, broker-a" in unknown.stderr
        assert run("ariane", "cluster", "down", *folder).returncode == 0
        assert running.process.wait(60) == 0
        assert not any(is_alive(row["pid"]) for row in after.values())
    assert "start one" in run("ariane", "cluster", "status", *folder).stderr


def test_a_killed_supervisor_leaves_nothing_that_down_cannot_clean(tmp_path: Path) -> None:
    with cluster(tmp_path, "dledger") as (running, _):
        pids = [row["pid"] for row in states(tmp_path).values()]
        os.kill(pids[1], signal.SIGSTOP)  # it cannot follow the signal that tells the end of its supervisor
        running.process.kill()
        running.process.wait()
        refused = run("ariane", "cluster", "up", "--folder", str(tmp_path / "c"))
        assert "without their supervisor" in refused.stderr
        ended = run("ariane", "cluster", "down", "--folder", str(tmp_path / "c"))
        assert ended.returncode == 0, ended.stderr
        until(lambda: not any(map(is_alive, pids)), 60, "all members are gone")
        assert not (tmp_path / "c" / "control.sock").exists()


@pytest.mark.parametrize("arguments", [[], ["--layout", "2m-noslave"]])
def test_another_layout_or_none_is_refused_with_what_to_do(tmp_path: Path, arguments: list[str]) -> None:
    if arguments:
        (tmp_path / "cluster.json").write_text('{"layout": "dledger", "namesrv_port": 1, "broker_port": 1}')
    ended = run("ariane", "cluster", "up", "--folder", str(tmp_path), *arguments)
    assert ended.returncode != 0
    assert ("choose another --folder" if arguments else "--layout 2m-noslave|") in ended.stderr


def test_a_folder_that_was_made_with_other_ports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"layout": "dledger", "namesrv_port": 1, "broker_port": 10911}')
    ended = run("ariane", "cluster", "up", "--folder", str(tmp_path), "--broker-port", "10921")
    assert ended.returncode == 1
    assert "holds a cluster of broker port 10911; choose another --folder" in ended.stderr


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    ended = run("ariane", "cluster", "up", "--folder", str(tmp_path), "--layout", "2m-noslave")
    assert ended.returncode == 1
    assert "is not empty and holds no cluster" in ended.stderr
    assert not (tmp_path / "cluster.json").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((65530, 9876), "broker-b needs port 65538, which is none"),
        ((3, 9876), "namesrv needs port -1, which is none"),
        ((10911, 10921), "port 10921, which broker-b needs, is taken by namesrv"),
    ],
)
def test_ports_that_cannot_be_are_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[int, int], said: str
) -> None:
    monkeypatch.setattr("ariane.cli.local_cluster.control._is_free", lambda port: True)
    broker, namesrv = given
    with pytest.raises(ConfigError, match=said):
        up(LayoutName.NO_SLAVE, tmp_path, namesrv, broker)
    assert not (tmp_path / "cluster.json").exists()


def test_a_taken_port_is_named_and_another_can_be_given(tmp_path: Path) -> None:
    base = free_port(-4, *BROKERS)
    options = ("--folder", str(tmp_path), "--layout", "2m-noslave", "--namesrv-port", str(free_port()))
    with socket.create_server(("127.0.0.1", base + 11)):
        ended = run("ariane", "cluster", "up", *options, "--broker-port", str(base))
    assert ended.returncode == 1
    assert f"port {base + 11}, which broker-b needs, is taken by another program" in ended.stderr
    assert not (tmp_path / "cluster.json").exists(), "the next start may ask for other ports"
