"""A round of random restarts with an Apache broker on either side; APACHE_RESTARTS=10 runs ten of each."""

import os
from pathlib import Path

import pytest

from tests.peers import Build
from tests.replication.restarts import run

ROUNDS = int(os.environ.get("APACHE_RESTARTS", "1"))
SEED = int(os.environ.get("APACHE_RESTARTS_SEED", "3"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 * ROUNDS)]


@pytest.mark.parametrize("apache", ["slave", "master"])
async def test_both_have_the_same_after_restarts_of_either_at_random(peers: Build, tmp_path: Path, apache: str) -> None:
    sent, end, done = await run(peers, tmp_path, apache, ROUNDS, SEED)
    assert len(done) >= ROUNDS
    assert sent >= 40 * ROUNDS
    assert end > 0
