"""A few cuts of `make dledger-power`."""

from pathlib import Path

import pytest

from tests.dledger.power import run
from tests.power_cut import needs_power_cuts

pytestmark = [needs_power_cuts, pytest.mark.slow, pytest.mark.timeout(600)]


async def test_nothing_acknowledged_is_lost_when_the_power_of_three_file_systems_is_cut(tmp_path: Path) -> None:
    acknowledged, lost = await run(tmp_path, 2)
    assert acknowledged > 300
    assert lost == 0


async def test_acknowledging_in_memory_loses_some(tmp_path: Path) -> None:
    """The test above can fail."""
    acknowledged, lost = await run(tmp_path, 1, durable=False)
    assert acknowledged
    assert lost > 0
