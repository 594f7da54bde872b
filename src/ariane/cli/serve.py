"""Running servers until a signal says stop."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from ariane.errors import ArianeError, ListenFailed


class Service(Protocol):
    """What can be started and stopped: a name server, a broker."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed; say in one sentence why it could not go on."""
    try:
        _runner()(main)
    except (ArianeError, OSError) as error:
        sys.exit(f"ariane: {error}")


def _runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


async def listen(service: Service, port: int, option: str) -> None:
    """Start a server; a taken port is told with the option that chooses another."""
    try:
        await service.start()
    except ListenFailed as error:
        raise ListenFailed(f"port {port} is taken ({error}); choose another with {option}") from None


async def until_stopped(ready: Callable[[], Awaitable[None]] | None = None) -> None:
    """Return at SIGINT or SIGTERM; `ready` runs meanwhile."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    task = asyncio.ensure_future(ready()) if ready is not None else None
    await stop.wait()
    if task is not None and not task.done():
        task.cancel()
