"""`ariane filter` and `ariane broker timers` against a cluster."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ariane import ConsumeFrom, LitePullConsumer, Message, Producer, WasmFilter
from ariane.cli.app import app
from ariane.testing.cluster import Cluster
from tests.broker.filter.modules import BODY_STARTS_WITH_1

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("filters"), config={"filterUploadEnable": True}) as cluster:
        cluster.create_topic("orders", queues=1)
        yield cluster


def ariane(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "-n", cluster.name_servers])


def test_filters_are_listed_shown_and_removed(cluster: Cluster, tmp_path: Path) -> None:
    assert "no consumer has uploaded a filter" in ariane(cluster, "filter", "list").output
    ones = WasmFilter("ones.wasm", module=BODY_STARTS_WITH_1)
    servers = cluster.name_servers
    with (
        Producer("p", name_servers=servers) as producer,
        LitePullConsumer("billing", {"orders": ones}, name_servers=servers, consume_from=ConsumeFrom.FIRST) as consumer,
    ):
        producer.send(Message("orders", b"1"))
        while not consumer.poll():
            pass
    (row,) = json.loads(ariane(cluster, "filter", "list", "--json").output)
    assert (row["group"], row["topic"], row["name"], row["run by"]) == ("billing", "orders", "ones.wasm", "the broker")
    copy = tmp_path / "copy.wasm"
    assert row["sha256"] in ariane(cluster, "filter", "show", "billing", "orders", "-o", str(copy)).output
    assert copy.read_bytes() == BODY_STARTS_WITH_1
    assert ariane(cluster, "filter", "remove", "billing", "orders", "--yes").exit_code == 0
    assert json.loads(ariane(cluster, "filter", "list", "--json").output) == []
    missing = ariane(cluster, "filter", "show", "billing", "orders")
    assert "has no filter for orders" in str(missing.exception)


def test_timers_are_counted_by_when_they_are_due(cluster: Cluster) -> None:
    now = cluster.clock.now_ms()
    with Producer("p", name_servers=cluster.name_servers) as producer:
        for hours in (0.5, 0.6, 5, 100):
            producer.send(Message("orders", b"x", deliver_at=now + int(hours * 3_600_000)))
    while True:
        (row,) = json.loads(ariane(cluster, "broker", "timers", "--json").output)
        if row["pending"] == 4:
            break
    assert (row["hour"], row["day"], row["later"]) == (2, 1, 1)
    assert "DUE WITHIN A MINUTE" in " ".join(ariane(cluster, "broker", "timers").output.split())
