"""A few cuts of `make ha-power`; those in memory are in test_power_cut.py."""

from pathlib import Path

import pytest

from tests.ha.power import run
from tests.power_cut import needs_power_cuts

pytestmark = [needs_power_cuts, pytest.mark.slow, pytest.mark.timeout(600)]


async def test_nothing_acknowledged_is_lost_when_the_power_of_both_file_systems_is_cut(tmp_path: Path) -> None:
    acknowledged, lost = await run(tmp_path, 2)
    assert acknowledged >= 200
    assert lost == 0


async def test_reports_of_received_bytes_lose_some(tmp_path: Path) -> None:
    """The test above can fail: slaves of Apache's report before their disk has a message."""
    acknowledged, lost = await run(tmp_path, 5, report="received")
    assert acknowledged
    assert lost > 0
