"""`ariane broker promote`, as an operator runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ariane.cli.app import app
from tests.cluster import Cluster, running_cluster
from tests.peers.jvm import until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as running:
        yield running


def ariane(cluster: Cluster, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), env={"NAMESRV_ADDR": cluster.namesrv})
    return result.exit_code, f"{result.output}{result.exception or ''}"


def test_a_slave_is_promoted_by_a_command_and_only_when_the_master_is_gone(cluster: Cluster) -> None:
    cluster.start_broker("broker-a")
    slave = cluster.start_slave(brokerName="broker-a")
    until(lambda: cluster.call(lambda: slave.epochs.current), 60, "the slave's first contact")
    code, text = ariane(cluster, "broker", "promote", "broker-a", "--yes")
    assert code != 0
    assert "still answers: stop it first, or promote with --force" in text
    cluster.stop_broker("broker-a")
    code, text = ariane(cluster, "broker", "promote", "broker-a", "--yes", "--json")
    assert code == 0, text
    assert '"epoch": "2"' in text
    assert cluster.call(lambda: (slave.role.is_master, slave.role.writable)) == (True, True)
    code, text = ariane(cluster, "broker", "promote", "nobody", "--yes")
    assert code != 0
    assert "`ariane cluster` lists them" in text
