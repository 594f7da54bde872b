"""Filters as the store asks them: by the bytes of a message's properties."""

from __future__ import annotations

from ariane.filter.errors import FilterSyntaxError
from ariane.filter.interface import SQL92, MatchAll, MessageFilter, is_tag_type
from ariane.filter.sql92 import ExpressionCompiler
from ariane.filter.tags import TagFilter, split_tags
from ariane.protocol.bodies import ALL_TAGS
from ariane.protocol.properties import decode_properties
from ariane.protocol.units import stored_properties


class StoredPropertiesFilter:
    """A filter on properties, given the bytes that the store has."""

    def __init__(self, inner: MessageFilter) -> None:
        self._inner = inner
        self.needs_properties = inner.needs_properties
        self.matches_code = inner.matches_code

    def matches_message(self, properties: bytes) -> bool:
        """Decode the properties, if the filter needs them, and ask it."""
        if not self.needs_properties:
            return True
        return self._inner.matches_message(decode_properties(properties.decode(errors="replace")))

    def matches_unit(self, unit: memoryview) -> bool:
        """The same for a whole stored message."""
        return self.matches_message(stored_properties(unit))


def compile_filter(
    compiler: ExpressionCompiler, expression: str | None, kind: str | None
) -> StoredPropertiesFilter | None:
    """The filter of a subscription, None when it lets everything through.

    FilterSyntaxError when the expression does not compile or its kind is unknown, FilterBusy when it must wait.
    """
    if is_tag_type(kind):
        if not expression or expression == ALL_TAGS:
            return None
        if not split_tags(expression):
            raise FilterSyntaxError("no tag in the expression")
        found = TagFilter.of_expression(expression)
        return None if isinstance(found, MatchAll) else StoredPropertiesFilter(found)
    if kind != SQL92 or not expression:
        raise FilterSyntaxError(f"no expression of a known kind: {kind}")
    return StoredPropertiesFilter(compiler.compile(expression))
