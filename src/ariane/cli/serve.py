"""Run servers until a signal stops them."""

import asyncio
import errno
import gc
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol

from ariane.cli.logs import LogLevel, log_to_stderr
from ariane.errors import ListenFailed


class Service(Protocol):
    """What can be started and stopped: a name server, a broker."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def run(main: Coroutine[Any, Any, None], level: LogLevel | None = LogLevel.WARNING) -> None:
    """Run on uvloop where it is installed, with the log on the error output; None: the log is open already."""
    if level is not None:
        log_to_stderr(level)
    _runner()(main)


def _runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


@asynccontextmanager
async def running(service: Service, port: int, option: str) -> AsyncIterator[None]:
    """A started server, stopped at the end; a taken port is told with the option that chooses another."""
    try:
        await service.start()
    except ListenFailed as error:
        await service.stop()
        if getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:
            raise  # not ours to listen on: another port would not help
        beside = f", which is needed beside {port}," if error.port not in (0, port) else ""
        text = f"port {error.port or port}{beside} is taken ({error}); choose another with {option}"
        raise ListenFailed(text, error.port) from None
    _spare_the_collector()
    try:
        yield
    finally:
        await service.stop()


def _spare_the_collector() -> None:
    """Freeze the start-up objects; messages make no reference cycles, so collect rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def until_stopped(meanwhile: Coroutine[Any, Any, None] | None = None) -> None:
    """Return at SIGINT or SIGTERM; raise if what runs meanwhile fails."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    stopped = asyncio.ensure_future(stop.wait())
    running = asyncio.ensure_future(meanwhile) if meanwhile is not None else None
    if running is not None:
        await asyncio.wait({stopped, running}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        running.cancel()
    await stopped
