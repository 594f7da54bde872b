"""The filters of the groups that pull here: expressions come with the pull, modules from the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.filter import (
    EXPRESSION,
    WASM,
    BodyFilter,
    ExpressionCompiler,
    FilterBusy,
    FilterFailed,
    FilterSyntaxError,
    GroupBudgets,
    GuardedFilter,
)
from ariane.filter.guarded import Decide
from ariane.filter.option_rows import expression_limits, sandbox_limits
from ariane.filter.wasm import WasmRuntime
from ariane.filterserver.config import FilterServerOptions
from ariane.protocol.bodies import FilterRecord
from ariane.protocol.codes import ResponseCode
from ariane.protocol.fast.pulling import PullKind

MOST_KEPT = 1024

Fetch = Callable[[FilterRecord], Awaitable[bytes]]


class GroupFilters:
    """Finds the filter of each pull."""

    def __init__(self, options: FilterServerOptions, clock: Clock, fetch: Fetch) -> None:
        """`fetch` gets the bytes of a module from the broker."""
        self._monotonic = clock.monotonic
        self._millis = options.filter_group_millis_per_second
        self._fetch = fetch
        self._compiler = ExpressionCompiler(expression_limits(options), clock.monotonic)
        self.runtime = WasmRuntime(sandbox_limits(options), clock.monotonic)
        self._budgets = GroupBudgets(clock.monotonic)
        self._records: dict[tuple[str, str], FilterRecord] = {}
        self._built: dict[tuple[str, str, str, str], GuardedFilter] = {}
        self.failures: Counter[str] = Counter()

    def knows(self, kind: PullKind) -> bool:
        """Whether the broker has told of the module of a pull; true for expressions."""
        if kind.expression_type != WASM:
            return True
        record = self._records.get((kind.consumer_group, kind.topic))
        return record is not None and record.sha256 == kind.subscription

    def take_records(self, records: list[FilterRecord]) -> None:
        """Take over what the broker has; filters that it no longer has are dropped."""
        now = {(record.consumer_group, record.topic): record for record in records}
        if now == self._records:
            return
        for digest in {one.sha256 for one in self._records.values()} - {one.sha256 for one in now.values()}:
            self.runtime.forget(digest)
        self._records = now
        self._built.clear()

    def of(self, kind: PullKind) -> GuardedFilter:
        """The filter of a pull; ResponseError when there is none, it is wrong, or it is not ready."""
        group, topic, text, type_ = kind.consumer_group, kind.topic, kind.subscription or "", kind.expression_type or ""
        key = (group, topic, text, type_)
        built = self._built.get(key)
        if built is None:
            decide = self._decide(group, topic, text, type_)
            if len(self._built) >= MOST_KEPT:
                self._built.clear()
            budget = self._budgets.of(group, self._millis)
            built = self._built[key] = GuardedFilter(decide, budget, self._monotonic, self.failures)
        return built

    def _decide(self, group: str, topic: str, text: str, type_: str) -> Decide:
        try:
            if type_ == EXPRESSION:
                compiled = self._compiler.compile_kind(text, EXPRESSION)
                assert isinstance(compiled, BodyFilter)
                return compiled.matches_unit
            if type_ == WASM:
                record = self._records.get((group, topic))
                if record is None or record.sha256 != text:
                    raise missing_module(group, topic, text)
                return self.runtime.decide(record.sha256, lambda: self._fetch(record))
        except FilterSyntaxError as error:
            raise ResponseError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
        except FilterBusy as error:
            raise ResponseError(ResponseCode.SYSTEM_BUSY, str(error)) from None
        except FilterFailed as error:
            self.failures[error.reason] += 1
            remark = f"the filter of {group} for {topic} cannot be used: {error}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark) from None
        raise ResponseError(ResponseCode.SYSTEM_ERROR, f"a filter server applies no filter of the type {type_!r}")


def missing_module(group: str, topic: str, digest: str) -> ResponseError:
    """The refusal of a pull whose module the broker does not have."""
    remark = f"the broker has no filter {digest[:12]} of {group} for {topic}: restart the consumer to upload it"
    return ResponseError(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
