"""The sandbox of WebAssembly filters: what modules get, and what hostile ones cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

import pytest
from wasmtime import wat2wasm

from ariane.env import ManualClock
from ariane.filter.errors import FilterBusy, FilterFailed
from ariane.filter.wasm import InvalidModule, SandboxLimits
from ariane.filter.wasm import compiling as compiling_module
from ariane.filter.wasm.compiling import ModuleCompiler
from ariane.filter.wasm.module import check_bytes, message_bytes
from ariane.filter.wasm.sandbox import PAUSE, Sandbox, compile_and_try
from tests.broker.filter.modules import ALLOC, BODY_STARTS_WITH_1, FIRST_BODY_BYTE, HOSTILE, loaded, module

LIMITS = SandboxLimits(fuel=300_000, message_ms=2000, memory_bytes=1 << 20)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(LIMITS)
    yield made
    made.close()


def test_a_message_has_a_head_its_properties_and_its_body() -> None:
    assert message_bytes(b"k\x01v\x02", b"body") == pack("<III", 1, 4, 4) + b"k\x01v\x02body"


def test_a_module_decides_by_the_body(sandbox: Sandbox) -> None:
    filter = loaded(sandbox, BODY_STARTS_WITH_1)
    assert [filter.matches(b"k\x01v\x02", body) for body in (b"1", b"2", b"1" * 100)] == [True, False, True]


def test_a_module_gets_the_largest_message_in_a_buffer_of_its_own(sandbox: Sandbox) -> None:
    grows = """(func (export "alloc") (param i32) (result i32) (local i32)
        (local.set 1 (i32.mul (memory.size) (i32.const 65536)))
        (drop (memory.grow (i32.add (i32.const 1) (i32.div_u (local.get 0) (i32.const 65536)))))
        (local.get 1))"""
    last = "(i32.load8_u (i32.sub (i32.add (local.get 0) (local.get 1)) (i32.const 1)))"
    filter = loaded(sandbox, module(f"(i32.eq {last} (i32.const 49))", alloc=grows))
    for size in (1, 5000, 300_000):
        assert filter.matches(b"", b"0" * size + b"1"), size
        assert not filter.matches(b"", b"1" * size + b"0"), size
    with pytest.raises(FilterFailed, match="outside of its memory"):
        filter.matches(b"", b"1" * (1 << 20))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_module_fails_and_costs_nothing_else(sandbox: Sandbox, name: str) -> None:
    bytes, reason = HOSTILE[name]
    with pytest.raises(FilterFailed) as failed:
        loaded(sandbox, bytes).matches(b"", b"1")
    assert failed.value.reason == reason
    assert loaded(sandbox, BODY_STARTS_WITH_1).matches(b"", b"1")


def test_a_module_that_burns_time_without_fuel_is_interrupted() -> None:
    endless = Sandbox(SandboxLimits(fuel=1 << 60, message_ms=20))
    try:
        with pytest.raises(FilterFailed, match="filterMessageMaxMillis") as failed:
            loaded(endless, HOSTILE["endless loop"][0]).matches(b"", b"1")
    finally:
        endless.close()
    assert failed.value.reason == "slow"


def test_a_module_that_failed_is_not_run_again_for_a_second(sandbox: Sandbox) -> None:
    clock = ManualClock()
    fails_on_2 = module(f"(if (i32.eq {FIRST_BODY_BYTE} (i32.const 50)) (then unreachable)) (i32.const 1)")
    filter = loaded(sandbox, fails_on_2, clock.monotonic)
    assert filter.matches(b"", b"1")
    for body in (b"2", b"1"):
        with pytest.raises(FilterFailed, match="unreachable"):
            filter.matches(b"", body)
    clock.advance(PAUSE)
    assert filter.matches(b"", b"1")


def test_state_of_a_module_is_gone_after_a_failure(sandbox: Sandbox) -> None:
    clock = ManualClock()
    counts = module(
        "(global.set $n (i32.add (global.get $n) (i32.const 1)))"
        "(if (i32.gt_u (global.get $n) (i32.const 2)) (then unreachable)) (i32.const 1)",
        "(global $n (mut i32) (i32.const 0))",
    )
    filter = loaded(sandbox, counts, clock.monotonic)
    for _ in range(3):
        assert filter.matches(b"", b"")
        assert filter.matches(b"", b"")
        with pytest.raises(FilterFailed):
            filter.matches(b"", b"")
        clock.advance(PAUSE)


FILTER = '(func (export "filter") (param i32 i32) (result i32) (i32.const 1))'
MEMORY = '(memory (export "memory") 1)'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(module)", "no memory"),
        (f"(module {MEMORY} {ALLOC})", r"no function filter\(i32, i32\) -> i32"),
        (f"(module {MEMORY} {FILTER})", "no function alloc"),
        (f'(module {MEMORY} {ALLOC} (func (export "filter") (param i32) (result i32) (i32.const 1)))', "filter"),
        (f'(module {MEMORY} {ALLOC} (func (export "filter") (param i32 i64) (result i32) (i32.const 1)))', "filter"),
        (f'(module {MEMORY} {ALLOC} (global (export "filter") i32 (i32.const 1)))', "filter"),
        (f'(module (import "env" "clock" (func)) {MEMORY} {ALLOC} {FILTER})', "imports env.clock"),
        (f'(module (import "env" "memory" (memory 1)) {ALLOC} {FILTER})', "imports env.memory"),
        (f'(module (memory (export "memory") 17) {ALLOC} {FILTER})', "exceeds memory limits"),
        (f"(module {MEMORY} (table 1000000 funcref) {ALLOC} {FILTER})", "exceeds table limits"),
        (f"(module {MEMORY} (table 1 funcref) (table 1 funcref) {ALLOC} {FILTER})", "table"),
        (f"(module {MEMORY} (func $s (loop (br 0))) (start $s) {ALLOC} {FILTER})", "used up its fuel"),
        (f"(module {MEMORY} (func $s unreachable) (start $s) {ALLOC} {FILTER})", "unreachable"),
        (f'(module {MEMORY} (data (i32.const 65530) "longer than that") {ALLOC} {FILTER})', "out of bounds"),
        (f"(module {MEMORY} (memory 1) {ALLOC} {FILTER})", "does not compile"),
    ],
)
def test_a_module_that_cannot_be_a_filter_is_refused_at_the_upload(text: str, reason: str) -> None:
    with pytest.raises(InvalidModule, match=reason):
        compile_and_try(bytes(wat2wasm(text)), LIMITS)


@pytest.mark.parametrize("bytes", [b"", b"\0asm", b"public class Filter {}", b"\0asm\x0d\0\x01\0"])
def test_bytes_that_are_no_module_are_refused_before_anything_is_started(bytes: bytes) -> None:
    with pytest.raises(InvalidModule, match="no WebAssembly module"):
        check_bytes(bytes, 1000)


def test_a_module_with_damaged_sections_is_refused() -> None:
    whole = BODY_STARTS_WITH_1
    for at in range(8, len(whole), 3):
        torn = bytearray(whole)
        torn[at] ^= 0xFF
        for candidate in (bytes(torn), whole[:at]):
            try:
                compile_and_try(candidate, LIMITS)  # some changes leave a module that is valid
            except InvalidModule:
                continue


def test_a_giant_module_is_refused_by_its_size() -> None:
    with pytest.raises(InvalidModule, match="filterModuleMaxBytes"):
        check_bytes(BODY_STARTS_WITH_1 + bytes(1000), 1000)


@pytest.mark.slow
async def test_a_module_is_compiled_in_a_process_of_its_own(sandbox: Sandbox) -> None:
    sandbox.load("module", await ModuleCompiler(LIMITS).compile(BODY_STARTS_WITH_1))
    assert sandbox.new_filter("module", ManualClock().monotonic).matches(b"", b"1")
    with pytest.raises(InvalidModule, match="no memory"):
        await ModuleCompiler(LIMITS).compile(bytes(wat2wasm("(module)")))


@pytest.mark.slow
async def test_a_module_that_takes_too_long_to_compile_is_refused() -> None:
    step = "(block (br_if 0 (local.get 0)) (local.set 0 (i32.add (local.get 0) (i32.const 7))))"
    bomb = module(step * 60_000 + "(i32.const 1)")
    limits = SandboxLimits(module_bytes=len(bomb), compile_seconds=1)
    with pytest.raises(InvalidModule, match="filterCompileMaxSeconds"):
        await ModuleCompiler(limits).compile(bomb)


async def test_only_a_few_modules_wait_to_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling_module, "MOST_WAITING", 0)
    with pytest.raises(FilterBusy, match="wait to be compiled"):
        await ModuleCompiler(LIMITS).compile(BODY_STARTS_WITH_1)
