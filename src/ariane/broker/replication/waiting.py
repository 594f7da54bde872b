"""Waiting for an event on the broker's clock."""

import asyncio

from ariane.env import Clock


async def happens(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Wait for an event, for so many seconds at most; whether it is set."""
    sleeper = asyncio.ensure_future(clock.sleep(seconds))
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({sleeper, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeper.cancel()
        waiter.cancel()
        await asyncio.gather(sleeper, waiter, return_exceptions=True)
    return event.is_set()
