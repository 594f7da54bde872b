"""Limits of a module: its size, its compilation, and each message."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What a user's module may cost. Fuel is about one unit for each instruction of WebAssembly."""

    module_bytes: int = 256 * 1024
    memory_bytes: int = 16 << 20
    """Linear memory of one filter."""
    fuel: int = 5_000_000
    """For one message; for the start function too."""
    message_ms: int = 100
    """Time for one message, by the clock: a second line behind the fuel."""
    compile_seconds: int = 10
    """Processor time of a compilation."""

    table_elements: int = 10_000
    stack_bytes: int = 256 * 1024
    compile_bytes: int = 1 << 30
    """Memory of the process that compiles."""


DEFAULT_SANDBOX = SandboxLimits()
