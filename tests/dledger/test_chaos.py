"""A few faults of `make dledger-chaos`."""

from pathlib import Path

import pytest

from tests.dledger.chaos import run

pytestmark = pytest.mark.slow  # three processes under load


@pytest.mark.timeout(600)
async def test_nothing_acknowledged_is_lost_when_leaders_are_killed_and_cut_off(tmp_path: Path) -> None:
    result = await run(tmp_path, 3, seed=57)
    assert result.acknowledged > 100
    assert result.faults == {"kill": 1, "drop": 1, "deaf": 1}
