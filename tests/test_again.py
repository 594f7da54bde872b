"""The second run of failed tests: what it forgives, and what not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # a test run for each case

ROOT = Path(__file__).parent.parent

FLAKY = """
import pathlib
def test_flaky():
    seen = pathlib.Path(__file__).with_suffix(".seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
RUNS: dict[str, tuple[str, bool, str]] = {  # a test file, whether its second run passes, and what that says
    "flaky": (FLAKY + "def test_good(): pass\n", True, "failed once under load, passed alone: test_it.py::test_flaky"),
    "broken": ("def test_broken(): assert False\n", False, "FAILED test_it.py::test_broken"),
    "many": (
        "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_bad(n): assert False\n",
        False,
        "no second run: 6 tests failed",
    ),
    "crash": ("import os\ndef test_crash(): os._exit(1)\n", False, "no second run: a test process crashed"),
    "collection": (FLAKY + "import no_such_module\n", False, "no second run: test_it.py cannot be collected"),
    "none": ("def test_good(): pass\n", False, "no second run: 0 tests failed"),
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_second_run_forgives_only_what_passes_alone(tmp_path: Path, kind: str) -> None:
    text, passes, said = RUNS[kind]
    (tmp_path / "test_it.py").write_text(text)
    first = run(tmp_path, "-p", "xdist", "-n", "2", "--max-worker-restart", "1")
    assert (first.returncode == 0) == (kind == "none"), first.stdout
    again = run(tmp_path, "--again")
    assert (again.returncode == 0) == passes, again.stdout
    assert said in again.stdout + again.stderr


def test_a_run_without_a_cache_records_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_good(): pass\n")
    done = run(tmp_path, "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr


def run(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for name in [name for name in environment if name.startswith("PYTEST_XDIST")]:
        del environment[name]
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--rootdir", str(folder), "-p", "tests.again", *options]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
