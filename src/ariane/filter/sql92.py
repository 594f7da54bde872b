"""Filtering by an SQL92 expression over the message's properties."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from ariane.filter.errors import FilterBusy, FilterSyntaxError
from ariane.filter.java_values import NotConvertible
from ariane.filter.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from ariane.filter.nodes import Node

CACHED_EXPRESSIONS = 256
LARGEST_PER_SECOND = 16
"""How many expressions of the largest size may be compiled in a second."""


class Sql92Filter:
    """Messages for which a compiled expression is true, neither false nor unknown.

    >>> cheap = Sql92Filter("price BETWEEN 5 AND 10 AND color IN ('red', 'blue')")
    >>> cheap.matches_message({"price": "7", "color": "red"})
    True
    """

    needs_properties = True

    def __init__(self, expression: str, limits: Limits | None = DEFAULT_LIMITS) -> None:
        """Compile, or raise FilterSyntaxError. Without limits for an expression that met them before."""
        if limits is not None:
            limits.check(expression)
        node = _compiled(expression)
        if limits is not None and node.depth > limits.depth:
            raise FilterSyntaxError(f"nested deeper than {limits.depth}", limit="depth")
        self.expression = expression
        self._evaluate = node.evaluate

    def matches_code(self, tags_code: int) -> bool:
        """Always: the properties decide."""
        return True

    def matches_message(self, properties: Mapping[str, str]) -> bool:
        """Whether the expression is true; a property that cannot be converted makes it untrue as a whole."""
        try:
            return self._evaluate(properties) is True
        except NotConvertible:
            return False


class ExpressionCompiler:
    """Compiles what clients send: within limits, and only so many new expressions a second.

    Compiling holds up everything else in the process, and every request may bring another expression.
    """

    def __init__(
        self, limits: Limits, monotonic: Callable[[], float], refused: Callable[[str], None] = lambda _: None
    ) -> None:
        """Call `refused` with the limit that an expression exceeds: a field of `Limits`, or `rate`."""
        self._limits = limits
        self._refused = refused
        self._monotonic = monotonic
        self._most = limits.tokens * LARGEST_PER_SECOND
        self._left = float(self._most)
        self._filled_at = monotonic()
        self._compiled: OrderedDict[str, Sql92Filter] = OrderedDict()

    def compile(self, expression: str) -> Sql92Filter:
        """The filter; FilterSyntaxError when it is none or exceeds a limit, FilterBusy when it must wait."""
        known = self._compiled.get(expression)
        if known is not None:
            self._compiled.move_to_end(expression)
            return known
        try:
            return self._compile_new(expression)
        except FilterSyntaxError as error:
            if error.limit:
                self._refused(error.limit)
            raise
        except FilterBusy:
            self._refused("rate")
            raise

    def _compile_new(self, expression: str) -> Sql92Filter:
        cost = self._limits.check(expression)
        now = self._monotonic()
        self._left = min(self._most, self._left + (now - self._filled_at) * self._most)
        self._filled_at = now
        if cost > self._left:
            raise FilterBusy("too many new filter expressions: try again in a second")
        self._left -= cost
        compiled = self._compiled[expression] = Sql92Filter(expression, self._limits)
        if len(self._compiled) > CACHED_EXPRESSIONS:
            self._compiled.popitem(last=False)
        return compiled


@lru_cache(maxsize=CACHED_EXPRESSIONS)
def _compiled(expression: str) -> Node:
    # Importing the grammar's library takes 0.1 s, and most brokers never see such a filter.
    from ariane.filter.expression import parse

    return parse(expression)
