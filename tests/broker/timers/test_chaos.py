"""A few kills of `make timer-chaos`, in real processes."""

from pathlib import Path

import pytest

from tests.broker.timers.chaos import Pair, run


@pytest.mark.slow
async def test_pending_messages_survive_kills_and_a_promotion(tmp_path: Path) -> None:
    result = await run(Pair(tmp_path, promote_every=2), count=300, kills=2, span=3)
    assert (len(result.due), result.kills, result.failovers) == (300, 2, 1)
