"""A few faults of `make dledger-chaos`."""

from pathlib import Path

import pytest

from tests.dledger.chaos import run


@pytest.mark.timeout(600)
async def test_nothing_acknowledged_is_lost_when_leaders_are_killed_and_paused(tmp_path: Path) -> None:
    result = await run(tmp_path, 2, seed=1, faults=("kill", "pause"))
    assert result.acknowledged > 100
    assert len(result.failover) == 2
