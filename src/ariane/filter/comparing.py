"""Comparison of two values of known types: one function for each pair, chosen when an expression is compiled."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from ariane.filter.java_values import (
    NotConvertible,
    boolean_of,
    compare_doubles,
    double_of,
    integer_of,
    long_of,
)


class Type(Enum):
    """The Java type of a value; which one decides how a property's text is converted."""

    STRING = "String"
    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"
    NOTHING = "null"


NUMBERS = frozenset({Type.INTEGER, Type.LONG, Type.DOUBLE})

# The operands have the two types of the table's key, which static types cannot express.
Compare = Callable[[Any, Any], int]


def _plain(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _wide_left(left: Any, right: Any) -> int:
    return compare_doubles(float(left), right)


def _wide_right(left: Any, right: Any) -> int:
    return compare_doubles(left, float(right))


def _never(left: Any, right: Any) -> int:
    """Types that nothing converts into each other: Apache answers "smaller", which makes them unequal."""
    return -1


def _impossible(left: Any, right: Any) -> int:
    """A boolean before a property: Apache fails with a class cast for every message."""
    raise NotConvertible(f"Boolean cannot be cast to String to compare it with {right!r}")


def _text_left(convert: Callable[[str], Any], compare: Compare) -> Compare:
    return lambda left, right: compare(convert(left), right)


def _text_right(convert: Callable[[str], Any], compare: Compare) -> Compare:
    return lambda left, right: compare(left, convert(right))


def order_texts(left: str, right: str) -> int:
    """Two properties by `<` and the like: as doubles, or the expression fails."""
    return compare_doubles(double_of(left), double_of(right))


_S, _I, _L, _D, _B = Type.STRING, Type.INTEGER, Type.LONG, Type.DOUBLE, Type.BOOLEAN

COMPARE: dict[tuple[Type, Type], Compare] = {
    (_S, _S): _plain,
    (_S, _I): _text_left(integer_of, _plain),
    (_S, _L): _text_left(long_of, _plain),
    (_S, _D): _text_left(double_of, compare_doubles),
    (_S, _B): _text_left(boolean_of, _plain),
    (_I, _S): _text_right(integer_of, _plain),
    (_L, _S): _text_right(long_of, _plain),
    (_D, _S): _text_right(double_of, compare_doubles),
    (_B, _S): _impossible,
    (_I, _I): _plain,
    (_I, _L): _plain,
    (_L, _I): _plain,
    (_L, _L): _plain,
    (_I, _D): _wide_left,
    (_L, _D): _wide_left,
    (_D, _I): _wide_right,
    (_D, _L): _wide_right,
    (_D, _D): compare_doubles,
    (_B, _B): _plain,
}


# How to convert a property's text so that Python's operators compare it with a constant as Java does.
# Doubles are not here: Java has NaN above all others.
CONVERT: dict[Type, Callable[[str], Any]] = {_I: integer_of, _L: long_of, _B: boolean_of}


def comparison_of(left: Type, right: Type) -> Compare:
    """The comparison of two types; types that do not convert into each other are unequal."""
    return COMPARE.get((left, right), _never)
