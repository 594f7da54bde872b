"""The guard: the hot path must not become dearer than the committed baseline by more than a quarter, counted.

`python -m bench.hotpath --baseline` writes a new baseline when a change is worth its cost; say so in its commit.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ariane.version import is_compiled
from bench.clientpath import CASES
from bench.hotpath import Measured, regressions

ROOT = Path(__file__).parents[2]
# Counting each instruction takes a minute, and longer on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def measured_with(sources: Path) -> Measured:
    """Measure in a process of its own, so that nothing the tests have done shows."""
    path = os.pathsep.join([str(sources), str(ROOT)])
    command = [sys.executable, "-m", "bench.hotpath", "--json"]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, check=True)
    found: Measured = json.loads(done.stdout)
    return found


@pytest.fixture
def plain_sources(tmp_path: Path) -> Path:
    """The package without its compiled modules."""
    shutil.copytree(ROOT / "src" / "ariane", tmp_path / "ariane", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return tmp_path


def test_plain_hot_path_is_not_dearer_than_its_baseline(plain_sources: Path) -> None:
    measured = measured_with(plain_sources)
    assert measured["form"] == "plain"
    assert not regressions(measured)


@pytest.mark.skipif(not is_compiled(), reason="this installation has no compiled hot path")
def test_compiled_hot_path_is_not_dearer_than_its_baseline() -> None:
    measured = measured_with(ROOT / "src")
    assert measured["form"] == "compiled"
    assert not regressions(measured)


def test_a_dearer_hot_path_is_told() -> None:
    dear: Measured = {"form": "plain", "method": "instructions", "costs": {"send": 1000.0, "pull": 0.0}}
    [told] = regressions(dear)
    assert told.startswith("send: 1000.000 reference rounds")


def test_a_dearer_client_is_told() -> None:
    dear: Measured = {"form": "compiled", "method": "instructions", "costs": dict.fromkeys(CASES, 1000.0)}
    assert [told.partition(":")[0] for told in regressions(dear)] == list(CASES)
