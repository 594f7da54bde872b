"""Compiles modules in a process of its own: time and memory of a compilation have no other bound."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Final

from ariane.extras import extra
from ariane.filter.errors import FilterBusy
from ariane.filter.wasm.compile_process import ACCEPTED
from ariane.filter.wasm.limits import SandboxLimits
from ariane.filter.wasm.module import InvalidModule, check_bytes

MOST_WAITING: Final = 8
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SYSTEMROOT")


class ModuleCompiler:
    """Compiles one module at a time, off the event loop; a few more may wait."""

    def __init__(self, limits: SandboxLimits) -> None:
        self._limits = limits
        self._one = asyncio.Lock()
        self._waiting = 0

    async def compile(self, module: bytes) -> bytes:
        """Machine code for `Sandbox.load`. InvalidModule says what is wrong; FilterBusy when too many wait."""
        check_bytes(module, self._limits.module_bytes)
        with extra("wasm", "a filter in WebAssembly"):
            import wasmtime  # noqa: F401
        if self._waiting >= MOST_WAITING:
            raise FilterBusy(f"{MOST_WAITING} filters wait to be compiled: try again in a few seconds")
        self._waiting += 1
        try:
            async with self._one:
                return await asyncio.to_thread(self._compile, module)
        finally:
            self._waiting -= 1

    def _compile(self, module: bytes) -> bytes:
        seconds = self._limits.compile_seconds
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "ariane.filter.wasm.compile_process", json.dumps(asdict(self._limits))],
                input=module,
                capture_output=True,
                timeout=5 * seconds + 30,  # by the clock, for a busy machine: the processor time is limited below it
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            )
        except subprocess.TimeoutExpired:
            raise InvalidModule(f"compiling took more than {5 * seconds + 30} s") from None
        if ended.stdout.startswith(ACCEPTED):
            return ended.stdout[1:]
        if ended.stdout:
            raise InvalidModule(ended.stdout[1:].decode(errors="replace"))
        if ended.returncode > 0:
            last = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise InvalidModule(f"the process that compiles failed: {last[:300]}")
        raise InvalidModule(
            f"compiling took more than {seconds} s of processor time (filterCompileMaxSeconds) or too much memory"
        )
