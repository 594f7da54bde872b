"""The peers for tests that run an event loop of their own: every call in a thread, awaited."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from tests.peers.clients import Handle


class Aio:
    """`await aio(java).producer(...)`: any method of the wrapped object, without blocking the loop."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._wrapped, name)
        return self._in_thread(member) if callable(member) else member

    async def __aenter__(self) -> "Aio":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._wrapped.close)

    @staticmethod
    def _in_thread(method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            result = await asyncio.to_thread(method, *args, **kwargs)
            return Aio(result) if isinstance(result, Handle) else result

        return call


def aio(wrapped: Any) -> Aio:
    """Wraps a driver or client so that its methods are awaited; clients it opens come wrapped too."""
    return Aio(wrapped)
