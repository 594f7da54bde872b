"""The console of `ariane up --console`: a process of its own, so that pages cost the broker's loop nothing."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ariane.extras import MissingExtra

DEFAULT_CONSOLE_PORT: Final = 8082
PATIENCE: Final = 5.0  # seconds to stop


def check_console() -> None:
    """MissingExtra when the console's packages are not installed."""
    if find_spec("nicegui") is None:
        raise MissingExtra(
            "ariane up --console needs nicegui, which is not installed: pip install 'ariane[console]'", "console"
        )


@asynccontextmanager
async def console_process(namesrv: str, port: int | None, folder: Path) -> AsyncIterator[None]:
    """The console of a cluster on this machine, stopped at the end; nothing without a port."""
    if port is None:
        yield
        return
    words = ["-m", "ariane", "console", "-n", namesrv, "--port", str(port), "--folder", str(folder)]
    process = await asyncio.create_subprocess_exec(sys.executable, *words)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), PATIENCE)
        except TimeoutError:
            process.kill()
            await process.wait()
