"""Apache's client goes on after its leader was killed, without a new route."""

from pathlib import Path

import pytest

from tests.dledger.failover import java_client, start
from tests.peers import Driver

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def test_apaches_client_sends_through_a_killed_leader_that_was_started_again(
    tmp_path: Path, java: Driver
) -> None:
    """It asks for routes each ten minutes here, so that only the old address can have taken its message."""
    group = await start(tmp_path)
    try:
        assert len(await java_client(java, group, 1, restarted=True, poll=600_000)) == 1
    finally:
        await group.stop()
