"""Every Python example of the guarantee's page runs, each in a process of its own, as a reader would run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ariane.testing.cluster import Cluster
from tests.client.test_docs import BLOCK, DOCS

pytestmark = pytest.mark.slow  # a process for each example

EXAMPLES = BLOCK.findall((DOCS / "guarantee.md").read_text())


@pytest.mark.parametrize("code", EXAMPLES, ids=[str(number) for number, _ in enumerate(EXAMPLES, 1)])
def test_the_example_runs(code: str, cluster: Cluster, tmp_path: Path) -> None:
    for topic in ("transfers", "invoices", "parcels"):
        cluster.create_topic(topic)
    script = tmp_path / "example.py"
    script.write_text(code.replace("127.0.0.1:9876", cluster.name_servers))
    world = {**os.environ, "NAMESRV_ADDR": cluster.name_servers}
    ran = subprocess.run(
        [sys.executable, script.name], capture_output=True, text=True, env=world, cwd=tmp_path, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    if "CREATE TABLE IF NOT EXISTS account" in code:
        assert ran.stdout == "[('ann', 70), ('bob', 30)]\n"
