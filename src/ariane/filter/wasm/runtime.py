"""The modules of a process: compiled when they are uploaded or first needed, then run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ariane.extras import MissingExtra, extra
from ariane.filter.errors import FilterBusy, FilterFailed
from ariane.filter.guarded import Decide
from ariane.filter.wasm.compiling import ModuleCompiler
from ariane.filter.wasm.limits import SandboxLimits
from ariane.filter.wasm.module import InvalidModule, digest_of

if TYPE_CHECKING:
    from ariane.filter.wasm.sandbox import Sandbox

log = logging.getLogger("ariane.filter")


class WasmRuntime:
    """Compiles and runs modules. wasmtime is imported when the first one comes."""

    def __init__(self, limits: SandboxLimits, monotonic: Callable[[], float]) -> None:
        self.limits = limits
        self._monotonic = monotonic
        self._compiler = ModuleCompiler(limits)
        self._made: Sandbox | None = None
        self._compiling: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, str] = {}

    async def add(self, module: bytes) -> None:
        """Compile and keep a module. InvalidModule, FilterBusy or MissingExtra when that cannot be done."""
        digest = digest_of(module)
        if self._made is not None and self._made.holds(digest):
            return
        compiled = await self._compiler.compile(module)
        self._sandbox().load(digest, compiled)

    def decide(self, digest: str, load: Callable[[], Awaitable[bytes]]) -> Decide:
        """The decision of a module about stored messages.

        A module that is not compiled, as after a restart, is loaded and compiled in the background: FilterBusy until
        that is done, FilterFailed when it cannot be done.
        """
        if self._made is not None and self._made.holds(digest):
            return self._made.new_filter(digest, self._monotonic).matches_unit
        if digest in self._refused:
            raise FilterFailed("module", self._refused[digest])
        if digest not in self._compiling:
            task = asyncio.get_running_loop().create_task(self._compile_later(digest, load), name="compile a filter")
            self._compiling[digest] = task
        raise FilterBusy(f"the filter {digest[:12]} is being compiled: try again in a second")

    def forget(self, digest: str) -> None:
        """Drop a module that no group uses any more."""
        self._refused.pop(digest, None)
        if self._made is not None:
            self._made.forget(digest)

    async def close(self) -> None:
        """Stop compiling, and drop all modules."""
        tasks = list(self._compiling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._made is not None:
            self._made.close()
            self._made = None

    async def _compile_later(self, digest: str, load: Callable[[], Awaitable[bytes]]) -> None:
        try:
            await self.add(await load())
        except (InvalidModule, MissingExtra, OSError) as error:
            self._refused[digest] = str(error)
            log.error("the filter %s cannot be used: %s", digest[:12], error)
        except FilterBusy:
            pass  # the next pull tries again
        finally:
            del self._compiling[digest]

    def _sandbox(self) -> Sandbox:
        if self._made is None:
            with extra("wasm", "a filter in WebAssembly"):
                from ariane.filter.wasm.sandbox import Sandbox
            self._made = Sandbox(self.limits)
        return self._made
