"""Payload types and an inbox that tests share."""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
from pydantic import BaseModel

PATIENCE = 60.0


class Order(BaseModel):
    id: int
    item: str
    amount: int = 1


@dataclass
class Parcel:
    id: int
    weight: float


class Invoice(msgspec.Struct):
    id: int
    total: float


class Inbox:
    """What listeners got, in any thread; `take` waits for it."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def put(self, item: Any) -> None:
        self.items.append(item)
        self._loop.call_soon_threadsafe(self._changed.set)

    async def take(self, count: int) -> list[Any]:
        """The first `count` items, as soon as there are so many."""
        async with asyncio.timeout(PATIENCE):
            while len(self.items) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.items[:count]
