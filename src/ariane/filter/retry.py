"""Filtering retried messages by the expression of the topic they came from (`filterSupportRetry`)."""

from __future__ import annotations

from collections.abc import Mapping

from ariane.filter.interface import SQL92, MessageFilter
from ariane.filter.registry import ConsumerFilters
from ariane.message import RETRY_TOPIC


class RetryFilter:
    """A retry topic's filter: the tags code as its own subscription says, the properties as the original topic's."""

    needs_properties = True

    def __init__(self, own: MessageFilter, group: str, filters: ConsumerFilters) -> None:
        self._own = own
        self._group = group
        self._filters = filters

    def matches_code(self, tags_code: int) -> bool:
        """As the subscription of the retry topic says."""
        return self._own.matches_code(tags_code)

    def matches_message(self, properties: Mapping[str, str]) -> bool:
        """As the group's expression for the original topic says; everything when it has none."""
        data = self._filters.get(properties.get(RETRY_TOPIC, ""), self._group)
        if data is None or data.expression_type != SQL92:  # other filters decided at the first delivery
            return True
        return data.filter.matches_message(properties)
