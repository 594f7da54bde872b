"""One Spark session for all tests of this folder, and the recorded stores unpacked."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.client.newer import apache5
from tests.recorded import read_manifest, unpack
from tests.spark.clusters import apache, newer, ours, target
from tests.spark.quick_jvm import quick_jvm

__all__ = ["apache", "apache5", "newer", "ours", "target"]

FIXTURES = Path(__file__).parent.parent / "fixtures"

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _missing() -> str:
    """Why Spark cannot run here; nothing when it can."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed"
    java = shutil.which("java")
    if java is None:
        return "no java on the path"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    good = version is not None and int(version.group(1)) >= 17
    return "" if good else f"Java 17 is needed, not {said.splitlines()[:1]}"


MISSING = _missing()
if MISSING and os.environ.get("CI") != "true":  # in CI the tests are collected, and fail
    collect_ignore_glob = ["test_*.py"]


def pytest_report_header() -> str:
    """Says why nothing of this folder runs."""
    return f"tests/spark are skipped: {MISSING}" if MISSING else "tests/spark run with Spark"


def require_spark() -> None:
    """For tests that start Spark themselves."""
    if MISSING:
        pytest.fail(MISSING)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with two cores."""
    require_spark()
    from pyspark.sql import SparkSession

    warehouse = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("ariane-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", quick_jvm())
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(warehouse / "local"))
        .config("spark.sql.warehouse.dir", str(warehouse / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.pollingDelay", "10ms")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")  # errors reach the tests as exceptions
    yield session
    session.stop()


class RecordedStore:
    """A store folder recorded from Apache's broker, and the manifest of what is in it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.path = unpack(name, folder)
        self.manifest = read_manifest(name)
        self.messages: list[dict[str, Any]] = self.manifest["messages"]


@pytest.fixture(params=["store-clean", "store-killed"])
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> RecordedStore:
    return RecordedStore(request.param, tmp_path)


@pytest.fixture
def clean_store(tmp_path: Path) -> RecordedStore:
    return RecordedStore("store-clean", tmp_path)
