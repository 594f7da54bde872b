"""The options of users' filters, the same for brokers and filter servers."""

from __future__ import annotations

from typing import Protocol

from ariane.filter.limits import DEEPEST, DEFAULT_LIMITS, Limits
from ariane.filter.wasm.limits import DEFAULT_SANDBOX, SandboxLimits
from ariane.settings import LONG_MAX, Option

FILTER_OPTIONS = (
    Option("filterExpressionMaxLength", int, DEFAULT_LIMITS.length, low=1, own=True),
    Option("filterExpressionMaxTokens", int, DEFAULT_LIMITS.tokens, low=1, own=True),
    Option("filterExpressionMaxDepth", int, DEFAULT_LIMITS.depth, low=1, high=DEEPEST, own=True),
    Option("filterGroupMillisPerSecond", int, 200, low=1, high=1000, own=True),
    Option("filterModuleMaxBytes", int, DEFAULT_SANDBOX.module_bytes, low=1, high=8 << 20, own=True),
    Option("filterMemoryMaxBytes", int, DEFAULT_SANDBOX.memory_bytes, low=65536, high=1 << 30, own=True),
    Option("filterFuelPerMessage", int, DEFAULT_SANDBOX.fuel, low=1000, high=LONG_MAX, own=True),
    Option("filterMessageMaxMillis", int, DEFAULT_SANDBOX.message_ms, low=10, high=10000, own=True),
    Option("filterCompileMaxSeconds", int, DEFAULT_SANDBOX.compile_seconds, low=1, high=600, own=True),
)


class FilterOptions(Protocol):
    """The attributes of these options."""

    @property
    def filter_expression_max_length(self) -> int: ...
    @property
    def filter_expression_max_tokens(self) -> int: ...
    @property
    def filter_expression_max_depth(self) -> int: ...
    @property
    def filter_module_max_bytes(self) -> int: ...
    @property
    def filter_memory_max_bytes(self) -> int: ...
    @property
    def filter_fuel_per_message(self) -> int: ...
    @property
    def filter_message_max_millis(self) -> int: ...
    @property
    def filter_compile_max_seconds(self) -> int: ...


def expression_limits(options: FilterOptions) -> Limits:
    """The limits of expressions."""
    return Limits(
        length=options.filter_expression_max_length,
        tokens=options.filter_expression_max_tokens,
        depth=options.filter_expression_max_depth,
    )


def sandbox_limits(options: FilterOptions) -> SandboxLimits:
    """The limits of modules."""
    return SandboxLimits(
        module_bytes=options.filter_module_max_bytes,
        memory_bytes=options.filter_memory_max_bytes,
        fuel=options.filter_fuel_per_message,
        message_ms=options.filter_message_max_millis,
        compile_seconds=options.filter_compile_max_seconds,
    )
