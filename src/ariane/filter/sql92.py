"""Filtering by an SQL92 expression over the message's properties."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from ariane.filter.java_values import NotConvertible

if TYPE_CHECKING:
    from ariane.filter.nodes import Node

CACHED_EXPRESSIONS = 256


class Sql92Filter:
    """Messages for which a compiled expression is true, neither false nor unknown.

    >>> cheap = Sql92Filter("price BETWEEN 5 AND 10 AND color IN ('red', 'blue')")
    >>> cheap.matches_message({"price": "7", "color": "red"})
    True
    """

    needs_properties = True

    def __init__(self, expression: str) -> None:
        """Compiles, or raises FilterSyntaxError; an expression that was compiled before costs nothing."""
        self.expression = expression
        self._evaluate = _compiled(expression).evaluate

    def matches_code(self, tags_code: int) -> bool:
        """Always: only the message itself can say."""
        return True

    def matches_message(self, properties: Mapping[str, str]) -> bool:
        """Whether the expression is true; a property that cannot be converted makes it untrue as a whole."""
        try:
            return self._evaluate(properties) is True
        except NotConvertible:
            return False


@lru_cache(maxsize=CACHED_EXPRESSIONS)
def _compiled(expression: str) -> Node:
    # The grammar's library costs a tenth of a second of start-up, and most brokers never see such a filter.
    from ariane.filter.expression import parse

    return parse(expression)
