"""Filters: which messages a consumer gets, by tags, SQL92 or an expression over bodies. Used by broker and Spark.

`interface` says what a filter is; `tags`, `sql92` and `retry` are filters; `stored_filter` adapts them to the store.
`expression` parses SQL92 (sql92.lark) into `nodes`, which compare by `comparing` and `java_values`; `limits` bounds
what an expression may cost. `json_message` reads bodies, `guarded` bounds the time of filters that do. `registry` holds
the expressions of consumer groups with their `bloom` filter (`murmur3`). `wasm` runs modules of users.
"""

from ariane.filter.bloom import Bloom
from ariane.filter.errors import FilterBusy, FilterFailed, FilterSyntaxError
from ariane.filter.guarded import GroupBudgets, GuardedFilter, Stop, TimeBudget
from ariane.filter.interface import EXPRESSION, SQL92, TAG, WASM, MatchAll, MessageFilter, is_tag_type
from ariane.filter.limits import DEFAULT_LIMITS, Limits
from ariane.filter.registry import ConsumerFilters, FilterData, Subscription
from ariane.filter.retry import RetryFilter
from ariane.filter.sql92 import BodyFilter, ExpressionCompiler, Sql92Filter, compile_kind
from ariane.filter.stored_filter import StoredPropertiesFilter, compile_filter
from ariane.filter.tags import TagFilter, split_tags

__all__ = [
    "DEFAULT_LIMITS",
    "EXPRESSION",
    "SQL92",
    "TAG",
    "WASM",
    "Bloom",
    "BodyFilter",
    "ConsumerFilters",
    "ExpressionCompiler",
    "FilterBusy",
    "FilterData",
    "FilterFailed",
    "FilterSyntaxError",
    "GroupBudgets",
    "GuardedFilter",
    "Limits",
    "MatchAll",
    "MessageFilter",
    "RetryFilter",
    "Sql92Filter",
    "Stop",
    "StoredPropertiesFilter",
    "Subscription",
    "TagFilter",
    "TimeBudget",
    "compile_filter",
    "compile_kind",
    "is_tag_type",
    "split_tags",
]
