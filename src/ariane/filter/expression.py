"""Parses the text of an SQL92 filter into a compiled expression."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ariane.extras import extra
from ariane.filter import nodes
from ariane.filter.comparing import Type
from ariane.filter.errors import FilterSyntaxError
from ariane.filter.java_values import INTEGER_MAX, LONG_MAX
from ariane.filter.nodes import Node, WrongOperand

with extra("broker", "an SQL92 filter"):
    from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args
    from lark.lexer import PatternRE

SMALLEST_DOUBLE = 5e-324
BODY_PATH = r"body(?:\.[a-zA-Z_$][a-zA-Z0-9_$]*|\[[0-9]{1,9}\])+"


@v_args(inline=True)
class _Builder(Transformer[Token, Node]):
    """Builds the nodes bottom up while the parser reads; each method is named after its rule in the grammar."""

    def start(self, node: Node) -> Node:
        return nodes.truth(node)

    def same(self, node: Node) -> Node:
        return node

    def any_of(self, *operands_and_words: Node | Token) -> Node:
        return nodes.logic(True, _only_nodes(operands_and_words))

    def all_of(self, *operands_and_words: Node | Token) -> Node:
        return nodes.logic(False, _only_nodes(operands_and_words))

    def equal(self, left: Node, sign: Token, right: Node) -> Node:
        return nodes.equal(left, right)

    def different(self, left: Node, sign: Token, right: Node) -> Node:
        return nodes.negation(nodes.equal(left, right))

    def is_null(self, node: Node, *words: Token) -> Node:
        return nodes.is_null(node)

    def is_not_null(self, node: Node, *words: Token) -> Node:
        return nodes.negation(nodes.is_null(node))

    def ordered(self, left: Node, sign: Token, right: Node) -> Node:
        return nodes.ordered(left, str(sign), right)

    def between(self, node: Node, word: Token, low: Node, and_: Token, high: Node) -> Node:
        return nodes.between(node, low, high)

    def not_between(self, node: Node, not_: Token, word: Token, low: Node, and_: Token, high: Node) -> Node:
        return nodes.not_between(node, low, high)

    def in_list(self, node: Node, word: Token, *texts: Token) -> Node:
        return nodes.in_list(node, frozenset(map(_unquoted, texts)), inside=True)

    def not_in_list(self, node: Node, not_: Token, word: Token, *texts: Token) -> Node:
        return nodes.in_list(node, frozenset(map(_unquoted, texts)), inside=False)

    def negate(self, minus: Token, node: Node) -> Node:
        return nodes.negate(node)

    def negation(self, word: Token, node: Node) -> Node:
        return nodes.negation(node)

    def variable(self, name: Token) -> Node:
        return nodes.variable(str(name))

    def string(self, quoted: Token) -> Node:
        return nodes.constant(_unquoted(quoted), Type.STRING, str(quoted))

    def decimal(self, digits: Token) -> Node:
        return _whole_number(str(digits))

    def floating(self, digits: Token) -> Node:
        return _floating(str(digits))

    def true(self, word: Token) -> Node:
        return nodes.constant(True, Type.BOOLEAN, "TRUE")

    def false(self, word: Token) -> Node:
        return nodes.constant(False, Type.BOOLEAN, "FALSE")

    def null(self, word: Token) -> Node:
        return nodes.constant(None, Type.NOTHING, "NULL")


@v_args(inline=True)
class _BodyBuilder(_Builder):
    """Adds paths into JSON bodies. All numbers are doubles, as in JSON."""

    def variable(self, name: Token) -> Node:
        return nodes.body_value(str(name)) if "." in name or "[" in name else nodes.variable(str(name))

    def decimal(self, digits: Token) -> Node:
        return nodes.constant(float(digits.rstrip("lL")), Type.DOUBLE, str(digits))

    def floating(self, digits: Token) -> Node:
        return nodes.constant(float(digits), Type.DOUBLE, str(digits))


def _only_nodes(children: Sequence[Node | Token]) -> list[Node]:
    return [child for child in children if isinstance(child, Node)]


def _unquoted(quoted: str) -> str:
    return quoted[1:-1].replace("''", "'")


def _whole_number(digits: str) -> Node:
    """An Integer where it fits, else a Long; the sign is an operator, so the lowest Long cannot be written."""
    plain = digits.rstrip("lL")
    if len(plain) > len(str(LONG_MAX)) or int(plain) > LONG_MAX:
        raise WrongOperand(f'For input string: "{plain}"')
    number = int(plain)
    return nodes.constant(number, Type.INTEGER if number <= INTEGER_MAX else Type.LONG, plain)


def _floating(digits: str) -> Node:
    """A Double above zero: 0.0 cannot be written either."""
    number = float(digits)
    if number == float("inf"):
        raise WrongOperand(f"{digits} is greater than 1.7976931348623157E308")
    if number < SMALLEST_DOUBLE:
        raise WrongOperand(f"{digits} is less than 4.9E-324")
    return nodes.constant(number, Type.DOUBLE, digits)


def _allow_paths(terminal: Any) -> Any:
    if terminal.name == "ID":
        terminal.pattern = PatternRE(f"{BODY_PATH}|{terminal.pattern.value}", terminal.pattern.flags)
    return terminal


@cache
def _parser(with_body: bool) -> Lark:
    return Lark.open(
        "sql92.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="basic",
        transformer=_BodyBuilder() if with_body else _Builder(),
        maybe_placeholders=False,
        edit_terminals=_allow_paths if with_body else None,
    )


def parse(text: str, *, with_body: bool = False) -> Node:
    """The compiled expression, or FilterSyntaxError. `with_body` allows paths into a JSON body.

    As in RocketMQ's parser an expression ends before the first token that cannot continue it, and what comes after
    that token is not even looked at. The caller has checked the limits.
    """
    seen: list[Token] = []
    try:
        return _read(_parser(with_body).parse_interactive(text), seen)
    except UnexpectedToken as error:
        raise _unexpected(error) from None
    except UnexpectedCharacters as error:
        raise FilterSyntaxError(f"Lexical error at {error.char!r}", error.line, error.column) from None
    except WrongOperand as error:
        raise FilterSyntaxError(str(error), *_place(seen)) from None


def _read(reading: Any, seen: list[Token]) -> Node:
    """Feed tokens until one does not fit; an expression that is complete then counts. `seen` holds the last token."""
    try:
        for token in reading.iter_parse():
            seen[:] = [token]
    except UnexpectedToken:
        if "$END" not in reading.accepts():
            raise
    return _finished(reading.feed_eof(*seen))


def _place(seen: list[Token]) -> tuple[int, int]:
    return (seen[0].line or 1, seen[0].column or 1) if seen else (1, 1)


def _finished(result: Any) -> Node:
    assert isinstance(result, Node)
    return result


def _unexpected(error: UnexpectedToken) -> FilterSyntaxError:
    token = error.token
    if token.type == "$END":
        return FilterSyntaxError("Encountered the end of the expression", error.line, error.column)
    return FilterSyntaxError(f"Encountered {str(token)!r}", error.line, error.column)
