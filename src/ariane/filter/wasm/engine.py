"""The engine: no more of WebAssembly than compilers of C, Rust and the like use, with fuel and interruption."""

from __future__ import annotations

from ariane.extras import extra
from ariane.filter.wasm.limits import SandboxLimits
from ariane.filter.wasm.module import InvalidModule

with extra("wasm", "a filter in WebAssembly"):
    from wasmtime import Config, Engine, FuncType, MemoryType, Module, Store

ABSENT_FEATURES = (
    "wasm_threads",
    "wasm_multi_memory",
    "wasm_memory64",
    "wasm_relaxed_simd",
    "wasm_gc",
    "wasm_function_references",
    "wasm_exceptions",
    "wasm_stack_switching",
)


def new_engine(limits: SandboxLimits) -> Engine:
    """An engine. Modules compiled by another one with the same limits can be loaded into it."""
    config = Config()
    config.consume_fuel = True
    config.epoch_interruption = True
    config.max_wasm_stack = limits.stack_bytes
    for feature in ABSENT_FEATURES:
        setattr(config, feature, False)
    return Engine(config)


def new_store(engine: Engine, limits: SandboxLimits, ticks: int) -> Store:
    """The memory and fuel of one instance."""
    store = Store(engine)
    store.set_limits(
        memory_size=limits.memory_bytes, table_elements=limits.table_elements, instances=1, tables=1, memories=1
    )
    store.set_fuel(limits.fuel)
    store.set_epoch_deadline(ticks)
    return store


def check_interface(module: Module) -> None:
    """InvalidModule unless the module imports nothing and exports what a filter must."""
    for wanted in module.imports:
        raise InvalidModule(f"it imports {wanted.module}.{wanted.name}: a filter may import nothing")
    found = {one.name: one.type for one in module.exports}
    if not isinstance(found.get("memory"), MemoryType):
        raise InvalidModule("it exports no memory named `memory`")
    for name, parameters in (("alloc", 1), ("filter", 2)):
        kind = found.get(name)
        numbers = [] if not isinstance(kind, FuncType) else [str(one) for one in (*kind.params, *kind.results)]
        if not isinstance(kind, FuncType) or numbers != ["i32"] * (parameters + 1) or len(kind.params) != parameters:
            shape = ", ".join(["i32"] * parameters)
            raise InvalidModule(f"it exports no function {name}({shape}) -> i32")
