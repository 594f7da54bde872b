"""Filters in WebAssembly: a user's module decides about each message, in a sandbox without imports.

    module      what a module must export, how a message is handed to it, its digest
    limits      what a module and one message may cost
    engine      wasmtime's engine, configured once for compiling and running
    sandbox     runs a compiled module over messages
    compiling   compiles a module in a process of its own, with limits of time and memory
    compile_process   that process
    runtime     the modules of a broker or filter server, by digest

`engine` and `sandbox` need wasmtime (`ariane[wasm]`).
"""

from ariane.filter.wasm.limits import DEFAULT_SANDBOX, SandboxLimits
from ariane.filter.wasm.module import InvalidModule, check_bytes, digest_of
from ariane.filter.wasm.runtime import WasmRuntime

__all__ = ["DEFAULT_SANDBOX", "InvalidModule", "SandboxLimits", "WasmRuntime", "check_bytes", "digest_of"]
