"""A broker in the test's own event loop, and a client that speaks to it in raw commands."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.broker.talk import Talk, small_broker

Starter = Callable[..., Awaitable[Talk]]


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    """A broker with default options and a connection to it."""
    async with Talk.to(small_broker(tmp_path / "store")) as talk:
        yield talk


@pytest.fixture
async def talk_to(tmp_path: Path) -> AsyncIterator[Starter]:
    """A broker with options of the test's own: `await talk_to(flushDiskType="SYNC_FLUSH")`."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> Talk:
            return await stack.enter_async_context(Talk.to(small_broker(tmp_path / "store", **options)))

        yield start
