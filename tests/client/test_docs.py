"""Every Python example of the client's pages runs, each in a process of its own, as a reader would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ariane.testing.cluster import Cluster
from tests.peers.fixtures import QUICK

pytestmark = pytest.mark.slow  # a process for each example

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGES = ["send.md", "consume.md", "transactions.md", "testing.md", "admin.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, block in enumerate(BLOCK.findall((DOCS / page).read_text()), 1):
            found.append((f"{page}-{number}", block))
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> object:
    with Cluster(tmp_path_factory.mktemp("docs"), config=QUICK) as cluster:
        for topic in ("orders", "price-requests"):
            cluster.create_topic(topic)
        yield cluster


def run(command: list[str], cluster: Cluster, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run an example as a reader would, whose NAMESRV_ADDR is set."""
    world = {**os.environ, "NAMESRV_ADDR": cluster.name_servers, "HOME": str(folder)}
    world["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(command, capture_output=True, text=True, env=world, cwd=folder, timeout=60, check=False)


@pytest.mark.parametrize(("name", "code"), examples(), ids=[name for name, _ in examples()])
def test_the_example_runs(name: str, code: str, cluster: Cluster, tmp_path: Path) -> None:
    if "def test_" in code:
        script = tmp_path / "test_example.py"
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["ariane.testing.plugin"]\n')
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(script)]
    else:
        script = tmp_path / "example.py"
        command = [sys.executable, str(script)]
    code = code.replace("range(100_000)", "range(2_000)")  # fewer show the same
    script.write_text(code.replace("127.0.0.1:9876", cluster.name_servers))
    ran = run(command, cluster, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    if name.startswith("testing.md"):  # its examples break things, and a warning says so
        assert "Traceback" not in ran.stderr
    else:
        assert ran.stderr == ""


def test_the_first_ten_minutes_run_in_order(cluster: Cluster, tmp_path: Path) -> None:
    send, consume, look = BLOCK.findall((DOCS / "start.md").read_text())
    printed = []
    for code in (send, consume, look):
        ran = run([sys.executable, "-c", code], cluster, tmp_path)
        assert (ran.returncode, ran.stderr) == (0, "")
        printed.append(ran.stdout)
    assert printed[0].count("SEND_OK") == 3
    for order, attempt in ((0, 1), (1, 1), (1, 2), (2, 1)):
        assert printed[1].count(f"order {order} attempt {attempt}") == 1
    assert "topics: ['payments']" in printed[2]
    assert "waiting for billing: 0" in printed[2]
