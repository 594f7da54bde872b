"""Load the fixtures of Apache's peers and those that users get; order the tests, and pick the quick ones."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.again", "tests.peers.fixtures", "tests.wheel", "ariane.testing.plugin"]

# How long an example takes says something of the machine, not of the code; and what CI finds must be found again.
settings.register_profile(
    "ariane",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
    print_blob=True,
)
settings.load_profile("ariane")

# Test files are rewritten and hundreds of programs started: half of their CPU is compiling if nothing keeps the result.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ROOT = Path(__file__).parent
LONG = (  # files of 15 s or more, longest first: processes that start with these end together
    "packaging/test_install.py", "spark/test_cluster_mode.py", "spark/test_kills.py", "spark/test_sink_crashes.py",
    "interop/test_other_clients.py", "console/test_tour.py", "console/test_walk.py", "spark/test_pipeline_runs.py",
    "app/test_kombu.py",
    "runbooks/test_cluster.py", "spark/test_pipelines.py", "spark/test_access.py", "app/test_spring.py",
    "spark/test_topic_stream.py", "runbooks/test_from_apache.py",
    "replication/test_apache.py", "docs/test_site.py", "console/test_pages.py", "console/test_open_pages.py",
    "examples/test_examples.py",
    "spark/test_commitlog_source.py", "spark/test_sink.py", "peers/test_peers.py", "dledger/test_tables.py",
    "replication/test_restarts.py", "store/test_truncate_crashes.py", "store/test_power_cut.py", "store/test_kill.py",
    "guarantee/test_money.py", "cli/test_instances.py", "cli/test_servers.py", "deploy/test_layouts.py",
    "dledger/test_member.py", "dledger/test_broker.py", "dledger/test_mixed.py", "interop/test_consuming.py",
    "console/test_apache.py", "admin/test_same_as_mqadmin.py", "console/test_browser.py", "interop/test_mqadmin.py",
    "cli/test_kills.py", "client/test_mistakes.py", "bench/test_hotpath.py", "dledger/test_power.py",
    "namesrv/test_apache_peers.py", "interop/test_operations.py", "spark/test_changing_cluster.py",
    "dledger/test_membership.py", "ha/test_power.py", "client/test_rebalance.py", "app/test_contract.py",
    "spark/test_topic_batch.py", "spark/test_broker_killed.py", "client/test_consume.py", "client/test_transactions.py",
    "raft/test_simulator.py", "app/test_shop.py", "interop/test_handover.py", "store/test_bit_flips.py",
    "store/test_apache_reads_ours.py", "test_again.py",
)  # fmt: skip
AT_THE_END = "packaging/test_contents.py"  # needs a wheel that another file of the folder builds
UNQUICK = ("spark", "packaging", "interop", "examples")  # folders that --quick does not even import
OUTSIDE = frozenset(  # fixtures that start a JVM, a database or a browser, and parameters that ask for one
    (
        "peers", "java", "java_binary", "java_tls", "java_with", "apache_cluster", "apache_namesrv", "apache_broker",
        "mqadmin_alone", "apache", "apache5", "newer", "spark", "postgres", "postgresql", "mariadb", "redis",
        "site", "browser",
    )
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quick` is for everyday work: no JVM, Spark or database, nothing marked slow. `--deep` is for a night."""
    parser.addoption("--quick", action="store_true", help="leave out what needs a JVM, Spark or a database, or is slow")
    parser.addoption("--deep", action="store_true", help="all kills and steps where a usual run takes a sample")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long by itself; left out by --quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--quick") and collection_path in [ROOT / name for name in UNQUICK] else None


@pytest.fixture(scope="session")
def deep(request: pytest.FixtureRequest) -> bool:
    """Whether a test that repeats something expensive repeats it as often as it can."""
    return bool(request.config.getoption("--deep"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first, so that all processes end together; with `--quick` only what is quick."""
    items.sort(key=_turn)
    if config.getoption("--quick"):
        quick = [item for item in items if _is_quick(item)]
        config.hook.pytest_deselected(items=[item for item in items if not _is_quick(item)])
        items[:] = quick


def _turn(item: pytest.Item) -> int:
    file = item.path.relative_to(ROOT).as_posix()
    if file == AT_THE_END:
        return len(LONG) + 1
    return LONG.index(file) if file in LONG else len(LONG)


def _is_quick(item: pytest.Item) -> bool:
    if item.get_closest_marker("slow"):
        return False
    if OUTSIDE.intersection(getattr(item, "fixturenames", ())):
        return False
    parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
    return not any(isinstance(value, str) and value in OUTSIDE for value in parameters)
