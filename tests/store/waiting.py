"""Waiting for what threads and tasks do."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Return when `condition` is true; fail when it is not in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        assert loop.time() < deadline, "it did not happen in time"
        await asyncio.sleep(0.002)
