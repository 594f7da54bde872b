"""Every Python example of the client's pages runs, each in a process of its own, as a reader would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ariane.testing.cluster import Cluster

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
    with Cluster(tmp_path_factory.mktemp("docs")) as cluster:
        for topic in ("orders", "price-requests"):
            cluster.create_topic(topic)
        yield cluster


@pytest.mark.parametrize(("name", "code"), examples(), ids=[name for name, _ in examples()])
def test_the_example_runs(name: str, code: str, cluster: Cluster, tmp_path: Path) -> None:
    if "def test_" in code:
        script = tmp_path / "test_example.py"
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["ariane.testing.plugin"]\n')
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(script)]
    else:
        script = tmp_path / "example.py"
        command = [sys.executable, str(script)]
    script.write_text(code.replace("127.0.0.1:9876", cluster.name_servers))
    world = {**os.environ, "NAMESRV_ADDR": cluster.name_servers, "HOME": str(tmp_path)}
    world["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    ran = subprocess.run(command, capture_output=True, text=True, env=world, cwd=tmp_path, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    if name.startswith("testing.md"):  # its examples break things, and a warning says so
        assert "Traceback" not in ran.stderr
    else:
        assert ran.stderr == ""
