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
LONG = (
    "spark",
    "packaging",
    "interop",
    "dledger",
    "guarantee",
    "admin",
    "app",
    "client",
    "cli",
)  # folders to start with, longest first
AT_THE_END = ROOT / "packaging" / "test_contents.py"  # needs a wheel that another file of the folder builds
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
    """Long folders first, so that two processes end together; with `--quick` only what is quick."""
    items.sort(key=_turn)
    if config.getoption("--quick"):
        quick = [item for item in items if _is_quick(item)]
        config.hook.pytest_deselected(items=[item for item in items if not _is_quick(item)])
        items[:] = quick


def _turn(item: pytest.Item) -> int:
    if item.path == AT_THE_END:
        return len(LONG) + 1
    folder = _folder(item)
    return LONG.index(folder) if folder in LONG else len(LONG)


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(ROOT).parts[0]


def _is_quick(item: pytest.Item) -> bool:
    if item.get_closest_marker("slow"):
        return False
    if OUTSIDE.intersection(getattr(item, "fixturenames", ())):
        return False
    parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
    return not any(isinstance(value, str) and value in OUTSIDE for value in parameters)
