"""Which messages a consumer gets: by tags, by an SQL92 expression, and what is remembered of the expressions.

A filter is anything with the two questions of `MessageFilter`.
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
