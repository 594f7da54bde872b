"""Kills of a SYNC_MASTER under load, in real processes; `make ha-chaos` runs a hundred."""

from pathlib import Path

import pytest

from tests.ha.chaos import chaos

pytestmark = pytest.mark.slow


async def test_nothing_acknowledged_is_lost_when_masters_are_killed_and_wiped(tmp_path: Path) -> None:
    book = await chaos(tmp_path, kills=3)  # the third master loses its disk, and the slave is promoted
    assert len(book.acknowledged) >= 150
