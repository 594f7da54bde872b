"""Which messages a consumer gets: by tags, by an SQL92 expression, and what is remembered of the expressions.

A filter is anything with the two questions of `MessageFilter`.
"""

from ariane.filter.bloom import Bloom
from ariane.filter.errors import FilterSyntaxError
from ariane.filter.interface import SQL92, TAG, MatchAll, MessageFilter, is_tag_type
from ariane.filter.registry import ConsumerFilters, FilterData, Subscription
from ariane.filter.retry import RetryFilter
from ariane.filter.sql92 import Sql92Filter
from ariane.filter.tags import TagFilter, split_tags

__all__ = [
    "SQL92",
    "TAG",
    "Bloom",
    "ConsumerFilters",
    "FilterData",
    "FilterSyntaxError",
    "MatchAll",
    "MessageFilter",
    "RetryFilter",
    "Sql92Filter",
    "Subscription",
    "TagFilter",
    "is_tag_type",
    "split_tags",
]
