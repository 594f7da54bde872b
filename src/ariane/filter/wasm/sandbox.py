"""Runs compiled modules over stored messages, each message within its fuel, memory and time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Final, TypeVar
from weakref import ref

from ariane.extras import extra
from ariane.filter.errors import FilterFailed
from ariane.filter.json_message import parts_of
from ariane.filter.wasm.engine import check_interface, new_engine, new_store
from ariane.filter.wasm.limits import SandboxLimits
from ariane.filter.wasm.module import DELIVER, SKIP, InvalidModule, message_bytes

with extra("wasm", "a filter in WebAssembly"):
    from wasmtime import Engine, Func, Instance, Memory, Module, Store, Trap, TrapCode, WasmtimeError

TICK: Final = 0.01  # seconds of an epoch
PAUSE: Final = 1.0  # seconds after a failure until the module is run again
SMALLEST_BUFFER: Final = 4096

T = TypeVar("T")

_REASONS: Final = {
    TrapCode.OUT_OF_FUEL: ("fuel", "it used up its fuel for one message (filterFuelPerMessage)"),
    TrapCode.INTERRUPT: ("slow", "it ran longer than filterMessageMaxMillis over one message"),
    TrapCode.STACK_OVERFLOW: ("trap", "its calls nest too deeply"),
    TrapCode.UNREACHABLE: ("trap", "it reached an `unreachable` instruction, as after a panic or a failed allocation"),
}


class Sandbox:
    """One engine for all modules of a process, and the thread that counts its epochs while filters exist."""

    def __init__(self, limits: SandboxLimits) -> None:
        self.limits = limits
        self._engine = new_engine(limits)
        self._stop = Event()
        self._ticker: Thread | None = None
        self._modules: dict[str, Module] = {}

    @property
    def ticks(self) -> int:
        """Epochs that one message may take; one more, because the first may be over at once."""
        return max(1, round(self.limits.message_ms / 1000 / TICK)) + 1

    def load(self, digest: str, compiled: bytes) -> None:
        """Keep a module that `compiling` has made; never bytes from elsewhere: they are machine code."""
        self._modules[digest] = Module.deserialize(self._engine, compiled)
        if self._ticker is None:
            self._ticker = Thread(target=_tick, args=(ref(self._engine), self._stop), name="filter epochs", daemon=True)
            self._ticker.start()

    def holds(self, digest: str) -> bool:
        """Whether the module is loaded."""
        return digest in self._modules

    def forget(self, digest: str) -> None:
        """Drop a module; filters made of it keep working."""
        self._modules.pop(digest, None)

    def new_filter(self, digest: str, monotonic: Callable[[], float]) -> WasmModuleFilter:
        """A filter of a loaded module."""
        return WasmModuleFilter(self._engine, self._modules[digest], self.limits, self.ticks, monotonic)

    def close(self) -> None:
        """Stop counting epochs."""
        self._stop.set()
        if self._ticker is not None:
            self._ticker.join()
            self._ticker = None
        self._modules.clear()


def _tick(engine: ref[Engine], stop: Event) -> None:
    while not stop.wait(TICK):
        running = engine()
        if running is None:
            return
        running.increment_epoch()


class WasmModuleFilter:
    """A module with its memory, made when the first message comes and made again after a failure.

    After a failure it is not run for a second: it fails with the same words, so that a module that always fails costs
    the limits of one message in a second.
    """

    def __init__(
        self, engine: Engine, module: Module, limits: SandboxLimits, ticks: int, monotonic: Callable[[], float]
    ) -> None:
        self._engine = engine
        self._module = module
        self._limits = limits
        self._ticks = ticks
        self._monotonic = monotonic
        self._running: _Running | None = None
        self._failed: tuple[float, FilterFailed] | None = None

    def matches_unit(self, unit: memoryview) -> bool:
        """Whether the module delivers a stored message; FilterFailed when it cannot say."""
        properties, body = parts_of(unit)
        return self.matches(properties, body)

    def matches(self, properties: bytes, body: bytes) -> bool:
        """The same for the parts of a message."""
        if self._failed is not None:
            until, failure = self._failed
            if self._monotonic() < until:
                raise failure
            self._failed = None
        try:
            if self._running is None:
                self._running = _Running(self._engine, self._module, self._limits, self._ticks)
            return self._running.ask(message_bytes(properties, body))
        except FilterFailed as failure:
            self._running = None
            self._failed = (self._monotonic() + PAUSE, failure)
            raise


class _Running:
    """An instance of a module."""

    def __init__(self, engine: Engine, module: Module, limits: SandboxLimits, ticks: int) -> None:
        self._fuel = limits.fuel
        self._ticks = ticks
        self._store = store = new_store(engine, limits, ticks)
        exports = _guard(lambda: Instance(store, module, [])).exports(store)
        self._memory = _as(Memory, exports["memory"])
        self._alloc = _as(Func, exports["alloc"])
        self._filter = _as(Func, exports["filter"])
        self._buffer = 0
        self._size = 0

    def ask(self, message: bytes) -> bool:
        store: Store = self._store
        store.set_fuel(self._fuel)
        store.set_epoch_deadline(self._ticks)
        if len(message) > self._size:
            size = max(len(message), SMALLEST_BUFFER)
            self._buffer = _guard(lambda: self._alloc(store, size)) & 0xFFFFFFFF
            self._size = size
            if self._buffer + size > self._memory.data_len(store):
                raise FilterFailed("result", f"alloc({size}) returned an address outside of its memory")
        self._memory.write(store, message, self._buffer)
        verdict = _guard(lambda: self._filter(store, self._buffer, len(message)))
        if verdict in (DELIVER, SKIP):
            return bool(verdict)
        raise FilterFailed("result", f"filter returned {verdict}: 1 delivers a message, 0 skips it")


def _as(kind: type[T], value: object) -> T:
    assert isinstance(value, kind)  # check_interface has looked
    return value


def _guard(call: Callable[[], T]) -> T:
    try:
        return call()
    except Trap as trap:
        code = trap.trap_code
        reason, text = ("trap", "") if code is None else _REASONS.get(code, ("trap", ""))
        raise FilterFailed(reason, text or f"it trapped: {_last_line(trap)}") from None
    except WasmtimeError as error:
        raise FilterFailed("trap", _last_line(error)) from None


def _last_line(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2].strip().removeprefix("wasm trap: ")


def compile_and_try(module: bytes, limits: SandboxLimits) -> bytes:
    """Compile, and instantiate once, so that a start function or memory over the limits is found at the upload."""
    engine = new_engine(limits)
    try:
        compiled = Module(engine, module)
    except WasmtimeError as error:
        raise InvalidModule(f"it does not compile: {_last_line(error)}") from None
    check_interface(compiled)
    try:
        _Running(engine, compiled, limits, ticks=1)  # the fuel bounds it: no epoch passes here
    except FilterFailed as error:
        raise InvalidModule(f"it cannot be started: {error}") from None
    return bytes(compiled.serialize())
