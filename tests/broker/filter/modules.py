"""Filter modules for tests, written in WebAssembly's text form."""

from functools import cache

from wasmtime import wat2wasm

from ariane.filter.wasm import SandboxLimits
from ariane.filter.wasm.sandbox import Sandbox, WasmModuleFilter, compile_and_try

ALLOC = '(func (export "alloc") (param i32) (result i32) (i32.const 1024))'
"""A buffer of one page less 1 KiB: enough for small messages."""


def module(filter: str, rest: str = "", memory: str = "2", alloc: str = ALLOC) -> bytes:
    """A module whose filter has this body; its parameters are 0 (address) and 1 (size)."""
    text = f"""(module (memory (export "memory") {memory}) {rest} {alloc}
        (func (export "filter") (param i32 i32) (result i32) {filter}))"""
    return bytes(wat2wasm(text))


FIRST_BODY_BYTE = "(i32.load8_u (i32.add (i32.add (local.get 0) (i32.const 12)) (i32.load offset=4 (local.get 0))))"
"""The first byte of the body."""
BODY_STARTS_WITH_1 = module(f"(i32.eq {FIRST_BODY_BYTE} (i32.const 49))")

HOSTILE = {
    "endless loop": (module("(loop (br 0)) (i32.const 1)"), "fuel"),
    "endless recursion": (
        module("(call $r (i32.const 1))", "(func $r (param i32) (result i32) (call $r (local.get 0)))"),
        "trap",
    ),
    "unreachable": (module("unreachable"), "trap"),
    "division by zero": (module("(i32.div_u (i32.const 1) (i32.const 0))"), "trap"),
    "reads outside": (module("(i32.load (i32.const 0x7fffffff))"), "trap"),
    "memory bomb": (module("(loop (drop (memory.grow (i32.const 1))) (br 0)) (i32.const 1)"), "fuel"),
    "memory bomb that traps": (
        module("(if (i32.eq (memory.grow (i32.const 60000)) (i32.const -1)) (then unreachable)) (i32.const 1)"),
        "trap",
    ),
    "table bomb": (
        module(
            "(loop (drop (table.grow $t (ref.null func) (i32.const 1000))) (br 0)) (i32.const 1)",
            "(table $t 1 funcref)",
        ),
        "fuel",
    ),
    "fills memory for ever": (
        module("(loop (memory.fill (i32.const 0) (i32.const 1) (i32.const 131072)) (br 0)) (i32.const 1)"),
        "fuel",
    ),
    "verdict 2": (module("(i32.const 2)"), "result"),
    "verdict -1": (module("(i32.const -1)"), "result"),
    "buffer outside": (
        module("(i32.const 1)", alloc='(func (export "alloc") (param i32) (result i32) (i32.const -8))'),
        "result",
    ),
    "alloc traps": (
        module("(i32.const 1)", alloc='(func (export "alloc") (param i32) (result i32) unreachable)'),
        "trap",
    ),
    "alloc loops": (
        module("(i32.const 1)", alloc='(func (export "alloc") (param i32) (result i32) (loop (br 0)) (i32.const 0))'),
        "fuel",
    ),
}
"""Modules that compile and start, and the reason for which they fail at the first message."""


@cache
def compiled(bytes: bytes, limits: SandboxLimits) -> bytes:
    return compile_and_try(bytes, limits)


def loaded(sandbox: Sandbox, bytes: bytes, monotonic: object = None) -> WasmModuleFilter:
    """A filter of a module, compiled in this process."""
    import time

    sandbox.load("module", compiled(bytes, sandbox.limits))
    return sandbox.new_filter("module", time.monotonic if monotonic is None else monotonic)  # type: ignore[arg-type]
