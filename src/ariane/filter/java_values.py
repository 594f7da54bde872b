"""Texts as Java's `valueOf` of each type reads them, and Java's order of numbers.

A property is always a text; RocketMQ converts it to the type of the constant it meets, and a text that does not
convert fails the whole expression for that message.
"""

from __future__ import annotations

import math
import re

INTEGER_MIN, INTEGER_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
# Java takes digits of all scripts, but one 16-bit unit at a time.
LAST_PLAIN_CHARACTER = "\uffff"
SURELY_IN_RANGE = len("999999999")
WHOLE = re.compile(r"[+-]?\d+")
JAVA_BLANKS = "".join(map(chr, range(0x21)))
DOUBLE = re.compile(
    r"([+-]?)(?:(NaN)|(Infinity)|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)


class NotConvertible(ValueError):
    """A property's text is not what the expression needs."""


def integer_of(text: str) -> int:
    """`Integer.valueOf`."""
    return _whole(text, INTEGER_MIN, INTEGER_MAX)


def long_of(text: str) -> int:
    """`Long.valueOf`."""
    return _whole(text, LONG_MIN, LONG_MAX)


def _whole(text: str, low: int, high: int) -> int:
    if len(text) <= SURELY_IN_RANGE and text.isascii() and text.isdigit():
        return int(text)
    # A longer text is out of range unless it is zeros, and int() refuses to read a huge one.
    if len(text) > 4000 or not WHOLE.fullmatch(text) or max(text) > LAST_PLAIN_CHARACTER:
        raise NotConvertible(f'For input string: "{text}"')
    number = int(text)
    if not low <= number <= high:
        raise NotConvertible(f'For input string: "{text}"')
    return number


def double_of(text: str) -> float:
    """`Double.valueOf`: with blanks around it, a type suffix, hexadecimal digits, NaN and Infinity by name."""
    match = DOUBLE.fullmatch(text.strip(JAVA_BLANKS))
    if match is None:
        raise NotConvertible(f'For input string: "{text}"')
    sign, nan, infinity, decimal, hexadecimal = match.groups()
    if nan:
        return math.nan
    magnitude = math.inf if infinity else float(decimal) if decimal else _hexadecimal(hexadecimal)
    return -magnitude if sign == "-" else magnitude


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return math.inf


def boolean_of(text: str) -> bool:
    """`Boolean.valueOf`: true in any case, everything else is false."""
    return len(text) == 4 and text.lower() == "true"


def compare_doubles(left: float, right: float) -> int:
    """`Double.compareTo`: NaN is equal to itself and above all else, and -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right)


def _rank(number: float) -> int:
    if number != number:
        return 2
    return 0 if number == 0 and math.copysign(1, number) < 0 else 1
