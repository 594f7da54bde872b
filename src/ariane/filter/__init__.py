"""Filters: which messages a consumer gets, by tags or by an SQL92 expression. Used by broker and Spark.

`interface` says what a filter is; `tags`, `sql92` and `retry` are filters; `stored_filter` adapts them to the store.
`expression` parses SQL92 (sql92.lark) into `nodes`, which compare by `comparing` and `java_values`; `limits` bounds
what an expression may cost. `registry` holds the expressions of consumer groups with their `bloom` filter (`murmur3`).
"""

from ariane.filter.bloom import Bloom
from ariane.filter.errors import FilterBusy, FilterSyntaxError
from ariane.filter.interface import SQL92, TAG, MatchAll, MessageFilter, is_tag_type
from ariane.filter.limits import DEFAULT_LIMITS, Limits
from ariane.filter.registry import ConsumerFilters, FilterData, Subscription
from ariane.filter.retry import RetryFilter
from ariane.filter.sql92 import ExpressionCompiler, Sql92Filter
from ariane.filter.stored_filter import StoredPropertiesFilter, compile_filter
from ariane.filter.tags import TagFilter, split_tags

__all__ = [
    "DEFAULT_LIMITS",
    "SQL92",
    "TAG",
    "Bloom",
    "ConsumerFilters",
    "ExpressionCompiler",
    "FilterBusy",
    "FilterData",
    "FilterSyntaxError",
    "Limits",
    "MatchAll",
    "MessageFilter",
    "RetryFilter",
    "Sql92Filter",
    "StoredPropertiesFilter",
    "Subscription",
    "TagFilter",
    "compile_filter",
    "is_tag_type",
    "split_tags",
]
