"""The runbook of a rolling restart for a DLedger group, on processes, while clients send and consume."""

import re
from pathlib import Path

import pytest

from tests.cli.programs import run
from tests.cli.test_local_cluster import cluster
from tests.runbooks.load import Load

pytestmark = pytest.mark.slow


def ariane(*words: str) -> str:
    done = run("ariane", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_members_of_a_group_are_restarted_one_after_the_other_without_loss(tmp_path: Path) -> None:
    """With one group there is no other master to send to until clients know the new one: the application repeats."""
    with cluster(tmp_path, "dledger") as (_, namesrv), Load(namesrv, "elected", repeat=True) as load:
        text = (tmp_path / "c" / "broker-n0" / "broker.conf").read_text()
        peers = dict(re.findall(r"(n\d)-([\d.]+:\d+)", text))
        for member in peers:
            ariane("dledger", "step-down", peers[member], member)
            assert f"{member} does not lead" in ariane("dledger", "step-down", peers[member], member)
            ariane("cluster", "restart", f"broker-{member}", "--folder", str(tmp_path / "c"))
            load.await_sends_to("RaftNode00")
