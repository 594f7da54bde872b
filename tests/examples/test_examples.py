"""Each example as a program of its own, against a cluster of the test's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ariane.testing.cluster import Cluster
from tests.guarantee.conftest import create_database
from tests.guarantee.servers import Postgres, ServerMissing, or_skip
from tests.peers.fixtures import QUICK
from tests.spark.conftest import require_spark
from tests.spark.quick_jvm import quick_jvm

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT = 240


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("examples"), config=QUICK) as running:
        yield running


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    try:
        server = Postgres()
    except ServerMissing as error:
        or_skip(error)
    with server:
        yield server


def output(cluster: Cluster, folder: Path, name: str, *arguments: str, **variables: str) -> list[str]:
    """Run an example; give the lines that it printed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env={**os.environ, "NAMESRV_ADDR": cluster.name_servers, **variables},
        timeout=LIMIT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_every_cache_hears_of_a_change(cluster: Cluster, tmp_path: Path) -> None:
    assert output(cluster, tmp_path, "cache_invalidation.py") == ["before: [3.5, 3.5]", "after: [4.0, 4.0]"]


def test_a_filter_is_tried_without_a_broker(cluster: Cluster, tmp_path: Path) -> None:
    lines = output(cluster, tmp_path, "filters/filters.py", str(EXAMPLES / "filters" / "gold.wat"))
    assert [line.split()[0] for line in lines] == ["delivered", "skipped", "skipped", "skipped"]


def test_a_request_is_answered_or_given_up(cluster: Cluster, tmp_path: Path) -> None:
    lines = output(cluster, tmp_path, "request_reply.py")
    assert lines == ["tea 12", "cup 0", "unicorn: no answer, ReplyTimeout"]


def test_a_burst_is_worked_off_by_a_few_workers(cluster: Cluster, tmp_path: Path) -> None:
    accepted, served = output(cluster, tmp_path, "traffic_levelling.py")
    assert accepted == "300 orders accepted, none served yet"
    assert served in {f"300 orders served, at most {most} at a time" for most in (1, 2, 3, 4)}


def test_an_outbox_sends_what_was_committed(cluster: Cluster, tmp_path: Path) -> None:
    committed, shipped = output(cluster, tmp_path, "outbox.py")
    assert committed == "committed and not sent: 2 messages"
    assert shipped == "orders and shipments: [(1, 1), (3, 1)]"


def test_money_moves_between_two_databases(cluster: Cluster, postgres: Postgres, tmp_path: Path) -> None:
    place = postgres.server.rpartition("/")[0]
    for bank in ("bank_a", "bank_b"):
        create_database("postgresql", postgres, bank)
    banks = [f"postgresql://{place}/{bank}" for bank in ("bank_a", "bank_b")]
    lines = output(cluster, tmp_path, "bank_transfer.py", *banks)
    assert lines == ["30 COMMIT", "500 ROLLBACK", "20 COMMIT", "ann 50 bob 50"]


def test_celery_runs_and_retries_tasks(cluster: Cluster, tmp_path: Path) -> None:
    pytest.importorskip("celery")
    assert output(cluster, tmp_path, "celery_tasks.py") == ["invoice 7", "shipped 7 at try 2"]


def test_readings_of_devices_reach_parquet_once(cluster: Cluster, tmp_path: Path) -> None:
    require_spark()
    folder = str(tmp_path / "iot")
    lines = output(cluster, tmp_path, "iot_readings.py", folder, JAVA_TOOL_OPTIONS=quick_jvm())
    assert lines == ["200 readings sent", *[f"sensor-{device} 40 {20.5 + device}" for device in range(5)]]


def test_the_page_lists_every_example() -> None:
    page = (EXAMPLES / "README.md").read_text()
    names = [path.name for path in EXAMPLES.iterdir() if path.suffix == ".py"] + ["shop/"]
    assert [name for name in names if f"`{name}`" not in page] == []
