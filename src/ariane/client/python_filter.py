"""Translates a small part of Python into the expression language; nothing is ever evaluated as Python.

Allowed: `and`, `or`, `not`, comparisons with `==`, `!=`, `<`, `<=`, `>`, `>=`, `is None`, `is not None`, `in` and
`not in` with a tuple or list of texts, texts, numbers, True and False, `properties["name"]`, and paths into a JSON body
such as `body["items"][0]["sku"]`.
"""

from __future__ import annotations

import ast
import re

_ORDERS: dict[type[ast.cmpop], str] = {
    ast.Eq: "=",
    ast.NotEq: "<>",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_NAME = re.compile(r"[a-zA-Z_$][a-zA-Z0-9_$]*")
LONGEST = 8192


def translate(source: str) -> str:
    """The expression of a Python source.

    >>> translate('properties["tier"] in ("gold", "silver") and body["total"] >= 10')
    "((tier IN ('gold', 'silver')) AND (body.total >= 10))"
    """
    if len(source) > LONGEST:
        raise ValueError(f"a filter has at most {LONGEST} characters")
    try:
        tree = ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"a filter is one Python expression: {error}") from None
    try:
        return _condition(tree.body)
    except RecursionError:
        raise ValueError("the filter is nested too deeply") from None


def _condition(node: ast.expr) -> str:
    match node:
        case ast.BoolOp(op=op, values=values):
            word = " AND " if isinstance(op, ast.And) else " OR "
            return f"({word.join(map(_condition, values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"(NOT {_condition(operand)})"
        case ast.Compare(left=left, ops=ops, comparators=rights):
            sides = [left, *rights]
            each = [_comparison(sides[n], op, sides[n + 1]) for n, op in enumerate(ops)]
            return each[0] if len(each) == 1 else f"({' AND '.join(each)})"
    raise _refused(node)


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
    if isinstance(op, (ast.Is, ast.IsNot)):
        if not (isinstance(right, ast.Constant) and right.value is None):
            raise _refused(right)
        return f"({_value(left)} IS {'NOT ' if isinstance(op, ast.IsNot) else ''}NULL)"
    if isinstance(op, (ast.In, ast.NotIn)):
        if not isinstance(right, (ast.Tuple, ast.List)) or not right.elts:
            raise _refused(right)
        texts = ", ".join(_text(one) for one in right.elts)
        return f"({_value(left)} {'NOT ' if isinstance(op, ast.NotIn) else ''}IN ({texts}))"
    return f"({_value(left)} {_ORDERS[type(op)]} {_value(right)})"


def _value(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=bool() as value):
            return str(value).upper()
        case ast.Constant(value=str()):
            return _text(node)
        case ast.Constant(value=int() | float() as number):
            return repr(number)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return f"-{number!r}"
        case ast.Subscript(value=ast.Name(id="properties"), slice=ast.Constant(value=str() as name)):
            if _NAME.fullmatch(name) is None:
                raise _refused(node)
            return name
        case ast.Subscript():
            return _path(node)
    raise _refused(node)


def _path(node: ast.expr) -> str:
    match node:
        case ast.Name(id="body"):
            return "body"
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() as name)) if _NAME.fullmatch(name):
            return f"{_path(inner)}.{name}"
        case ast.Subscript(value=inner, slice=ast.Constant(value=int() as index)) if 0 <= index < 10**9:
            return f"{_path(inner)}[{int(index)}]"
    raise _refused(node)


def _text(node: ast.expr) -> str:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        raise _refused(node)
    return "'" + node.value.replace("'", "''") + "'"


def _refused(node: ast.expr) -> ValueError:
    reason = f"{ast.unparse(node)[:80]!r} is not in the part of Python that a filter may use"
    return ValueError(f"{reason}, at line {node.lineno}, column {node.col_offset + 1}")
