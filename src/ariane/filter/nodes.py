"""The parts of a compiled expression: what is known of each before any message, and how it is evaluated."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ariane.filter.comparing import CONVERT, NUMBERS, Type, comparison_of, order_texts
from ariane.filter.java_values import double_of
from ariane.filter.json_message import path_of
from ariane.filter.limits import DEEPEST

Properties = Mapping[str, str]
# What an expression gives for a message: text, number, True, False, or None for unknown.
Evaluate = Callable[[Properties], Any]

LONGEST_TEXT = 100
ORDERS: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


class WrongOperand(ValueError):
    """An operand that its operator cannot take, whatever the message."""


@dataclass(frozen=True, slots=True)
class Node:
    """An expression and what is known of it."""

    evaluate: Evaluate
    type: Type
    text: str
    constant: bool = False
    value: Any = None
    """Of a constant."""
    prop: bool = False
    """Just a property's name, or a path into the body."""
    path: bool = False
    """A path into the body."""
    boolean: bool = False
    """True, false or unknown by its nature, not by conversion."""
    depth: int = 1

    def __post_init__(self) -> None:
        if self.depth > DEEPEST:
            raise WrongOperand(f"nested deeper than {DEEPEST}")


def constant(value: Any, type_: Type, text: str) -> Node:
    """A literal; TRUE, FALSE and NULL count as boolean."""
    is_boolean = type_ in (Type.BOOLEAN, Type.NOTHING)
    return Node(lambda properties: value, type_, text, constant=True, value=value, boolean=is_boolean)


def variable(name: str) -> Node:
    """The value of a property: a text, or unknown when the message does not have it."""
    return Node(lambda properties: properties.get(name), Type.STRING, name, prop=True)


def body_value(name: str) -> Node:
    """The value at a path into a JSON body, e.g. `body.items[0].sku`: a text, or unknown."""
    path = path_of(name)

    def evaluate(message: Any) -> str | None:
        found: str | None = message.at(path)
        return found

    return Node(evaluate, Type.STRING, name, prop=True, path=True)


def negate(node: Node) -> Node:
    """The negative of a number; of anything else, nothing."""
    inner, text = node.evaluate, _shortened(f"(- {node.text})")
    if node.type in NUMBERS:
        return Node(lambda properties: -inner(properties), node.type, text, depth=node.depth + 1)

    def nothing(properties: Properties) -> None:
        inner(properties)  # which may fail, and then the whole expression does

    return Node(nothing, Type.NOTHING, text, depth=node.depth + 1)


def truth(node: Node) -> Node:
    """The node as a condition: a property by itself is never true, only false or unknown."""
    if node.boolean:
        return node
    if not node.prop:
        raise WrongOperand(f"Expression will not result in a boolean value: {node.text}")
    inner = node.evaluate
    return _condition(lambda properties: None if inner(properties) is None else False, node.text, node)


def negation(node: Node) -> Node:
    """NOT: unknown stays unknown."""
    inner = truth(node).evaluate

    def evaluate(properties: Properties) -> bool | None:
        value = inner(properties)
        return None if value is None else not value

    return _condition(evaluate, f"(NOT {node.text})", node)


def logic(decisive: bool, operands: Sequence[Node]) -> Node:
    """AND, which false decides, and OR, which true decides: operands from left to right until one does."""
    inner = tuple(truth(node).evaluate for node in operands)

    def evaluate(properties: Properties) -> bool | None:
        unknown = False
        for operand in inner:
            value = operand(properties)
            if value == decisive:
                return decisive
            unknown = unknown or value is None
        return None if unknown else not decisive

    return _condition(evaluate, f"({operands[0].text} {'OR' if decisive else 'AND'} ...)", *operands)


def equal(left: Node, right: Node) -> Node:
    """`=`; two unknown values are equal, and a known one differs from an unknown one on its right."""
    for node in (left, right):
        if node.constant and node.value is None:
            raise WrongOperand(f"'{node.text}' cannot be compared.")
    if left.constant and right.constant and left.boolean and not right.boolean:
        raise WrongOperand(f"'{left.text}' cannot be compared with '{right.text}'")
    return _equal(left, right)


def is_null(node: Node) -> Node:
    """IS NULL: true or false, never unknown."""
    return _equal(node, constant(None, Type.NOTHING, "NULL"))


def _equal(left: Node, right: Node) -> Node:
    if left.prop and not left.path and right.constant and right.value is not None:
        return _condition(_property_equals(left.text, right), f"({left.text} = {right.text})", left)
    first, second = left.evaluate, right.evaluate
    compare = comparison_of(left.type, right.type)

    def evaluate(properties: Properties) -> bool | None:
        value, other = first(properties), second(properties)
        if value is None:
            return True if other is None else None
        return False if other is None else compare(value, other) == 0

    return _condition(evaluate, f"({left.text} = {right.text})", left, right)


def _property_equals(name: str, right: Node) -> Evaluate:
    """The most frequent condition, with fewer calls."""
    wanted = right.value
    if right.type is Type.STRING:
        return lambda properties: None if (text := properties.get(name)) is None else text == wanted
    if (convert := CONVERT.get(right.type)) is not None:
        return lambda properties: None if (text := properties.get(name)) is None else convert(text) == wanted
    return lambda properties: None if (text := properties.get(name)) is None else double_of(text) == wanted


def ordered(left: Node, sign: str, right: Node) -> Node:
    """`<`, `<=`, `>`, `>=` between numbers and properties."""
    for node in (left, right):
        if node.boolean or (node.constant and node.type not in NUMBERS):
            raise WrongOperand(f"Value '{node.text}' cannot be compared.")
    if left.prop and not left.path and right.type in CONVERT and right.constant:
        return _condition(_property_ordered(left.text, sign, right), f"({left.text} {sign} {right.text})", left)
    first, second, decide = left.evaluate, right.evaluate, ORDERS[sign]
    both_texts = left.type is right.type is Type.STRING
    compare = order_texts if both_texts else comparison_of(left.type, right.type)

    def evaluate(properties: Properties) -> bool | None:
        value = first(properties)
        if value is None:
            return None
        other = second(properties)
        return None if other is None else decide(compare(value, other), 0)

    return _condition(evaluate, f"({left.text} {sign} {right.text})", left, right)


def _property_ordered(name: str, sign: str, right: Node) -> Evaluate:
    """A property compared with a whole number, with fewer calls."""
    limit, decide, convert = right.value, ORDERS[sign], CONVERT[right.type]
    return lambda properties: None if (text := properties.get(name)) is None else decide(convert(text), limit)


def between(node: Node, low: Node, high: Node) -> Node:
    """BETWEEN; two constants must be in order."""
    if low.constant and high.constant:
        _check_bounds(low, high)
    return logic(False, (ordered(node, ">=", low), ordered(node, "<=", high)))


def _check_bounds(low: Node, high: Node) -> None:
    if low.value is None or high.value is None:
        raise WrongOperand("Illegal values of between, values can not be null!")
    if low.type in NUMBERS and high.type in NUMBERS and comparison_of(high.type, low.type)(high.value, low.value) < 0:
        raise WrongOperand(
            f"Illegal values of between, left value({low.text}) must less than or equal to right value({high.text})"
        )


def not_between(node: Node, low: Node, high: Node) -> Node:
    """NOT BETWEEN; the bounds may be in any order."""
    return logic(True, (ordered(node, "<", low), ordered(node, ">", high)))


def in_list(node: Node, texts: frozenset[str], inside: bool) -> Node:
    """IN and NOT IN a list of texts, for a property only."""
    if not node.prop:
        raise WrongOperand(f"Expected a property for In expression, got: {node.text}")
    inner = node.evaluate

    def evaluate(properties: Properties) -> bool | None:
        value = inner(properties)
        return None if value is None else (value in texts) is inside

    return _condition(evaluate, f"({node.text} IN ...)", node)


def _condition(evaluate: Evaluate, text: str, *parts: Node) -> Node:
    depth = max(node.depth for node in parts) + 1
    return Node(evaluate, Type.BOOLEAN, _shortened(text), boolean=True, depth=depth)


def _shortened(text: str) -> str:
    """Texts are for error messages only, and must not grow with every level of an expression."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
