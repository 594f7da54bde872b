"""Filtering by an SQL92 expression over the message's properties."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ariane.filter.errors import FilterBusy, FilterSyntaxError
from ariane.filter.interface import EXPRESSION, SQL92
from ariane.filter.java_values import NotConvertible
from ariane.filter.json_message import JsonMessage
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
        node = _compiled(expression, False)
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


class BodyFilter:
    """Messages for which an expression over properties and JSON bodies is true.

    >>> from ariane.filter.json_message import JsonMessage
    >>> swedish = BodyFilter("body.customer.country = 'SE' AND body.total > 10")
    >>> swedish.matches(JsonMessage({}, b'{"customer": {"country": "SE"}, "total": 10.5}'))
    True
    """

    def __init__(self, expression: str, limits: Limits | None = DEFAULT_LIMITS) -> None:
        """Compile, or raise FilterSyntaxError. Without limits for an expression that met them before."""
        if limits is not None:
            limits.check(expression)
        node = _compiled(expression, True)
        if limits is not None and node.depth > limits.depth:
            raise FilterSyntaxError(f"nested deeper than {limits.depth}", limit="depth")
        self._evaluate: Callable[[Any], Any] = node.evaluate

    def matches(self, message: JsonMessage) -> bool:
        """Whether the expression is true; a value that cannot be converted makes it untrue as a whole."""
        try:
            return self._evaluate(message) is True
        except NotConvertible:
            return False

    def matches_unit(self, unit: memoryview) -> bool:
        """The same for a stored message."""
        return self.matches(JsonMessage.of_unit(unit))


CompiledFilter = Sql92Filter | BodyFilter
_KINDS: dict[str, Callable[[str, Limits | None], CompiledFilter]] = {SQL92: Sql92Filter, EXPRESSION: BodyFilter}


def compile_kind(expression: str, kind: str, limits: Limits | None = DEFAULT_LIMITS) -> CompiledFilter:
    """The filter of an expression of one of the two kinds; FilterSyntaxError when it is none."""
    return _KINDS[kind](expression, limits)


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
        self._compiled: OrderedDict[tuple[str, str], CompiledFilter] = OrderedDict()

    def compile(self, expression: str) -> Sql92Filter:
        """The filter; FilterSyntaxError when it is none or exceeds a limit, FilterBusy when it must wait."""
        compiled = self.compile_kind(expression, SQL92)
        assert isinstance(compiled, Sql92Filter)
        return compiled

    def compile_kind(self, expression: str, kind: str) -> CompiledFilter:
        """Like `compile`, for SQL92 or for an expression over bodies."""
        known = self._compiled.get((kind, expression))
        if known is not None:
            self._compiled.move_to_end((kind, expression))
            return known
        try:
            return self._compile_new(expression, kind)
        except FilterSyntaxError as error:
            if error.limit:
                self._refused(error.limit)
            raise
        except FilterBusy:
            self._refused("rate")
            raise

    def _compile_new(self, expression: str, kind: str) -> CompiledFilter:
        cost = self._limits.check(expression)
        now = self._monotonic()
        self._left = min(self._most, self._left + (now - self._filled_at) * self._most)
        self._filled_at = now
        if cost > self._left:
            raise FilterBusy("too many new filter expressions: try again in a second")
        self._left -= cost
        compiled = self._compiled[kind, expression] = compile_kind(expression, kind, self._limits)
        if len(self._compiled) > CACHED_EXPRESSIONS:
            self._compiled.popitem(last=False)
        return compiled


@lru_cache(maxsize=CACHED_EXPRESSIONS)
def _compiled(expression: str, with_body: bool) -> Node:
    # Importing the grammar's library takes 0.1 s, and most brokers never see such a filter.
    from ariane.filter.expression import parse

    return parse(expression, with_body=with_body)
