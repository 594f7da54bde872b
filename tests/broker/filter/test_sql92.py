"""SQL92 filters give the verdicts that Apache's own filter gave for the same expressions and properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ariane.env import ManualClock
from ariane.filter import ExpressionCompiler, FilterBusy, FilterSyntaxError, Sql92Filter
from ariane.filter.expression import parse
from ariane.filter.java_values import NotConvertible
from ariane.filter.limits import DEEPEST, DEFAULT_LIMITS, Limits
from ariane.filter.nodes import Node

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("apache_verdicts.json").read_text(encoding="utf-8"))
WIDE = Limits(length=1 << 17, tokens=1 << 17)
LETTERS = {True: "T", False: "F", None: "N"}


def verdict(node: Node, properties: Mapping[str, str]) -> str:
    try:
        return LETTERS[node.evaluate(properties)]
    except NotConvertible:
        return "X"


def verdicts(expression: str) -> str:
    try:
        node = parse(expression)
    except FilterSyntaxError:
        return "!"
    return "".join(verdict(node, properties) for properties in RECORDED["properties"])


def test_every_recorded_expression_has_apaches_verdict_for_every_property_set() -> None:
    different = [(row[0], row[1], ours) for row in RECORDED["verdicts"] if (ours := verdicts(row[0])) != row[1]]
    assert different == []


def test_the_recording_has_hundreds_of_expressions_of_each_kind() -> None:
    rows = [row[1] for row in RECORDED["verdicts"]]
    assert len(rows) > 1500
    assert sum(row == "!" for row in rows) > 400
    assert all(sum(letter in row for row in rows) > 200 for letter in "TFNX")


def test_only_true_matches() -> None:
    assert Sql92Filter("a > 5").matches_message({"a": "6"})
    assert not Sql92Filter("a > 5").matches_message({"a": "5"})
    assert not Sql92Filter("a > 5").matches_message({})
    assert not Sql92Filter("a > 5").matches_message({"a": "six"})


def test_a_property_that_does_not_convert_fails_the_whole_expression() -> None:
    either = Sql92Filter("a > 5 OR b = 'x'")
    assert either.matches_message({"a": "5", "b": "x"})
    assert not either.matches_message({"a": "five", "b": "x"})


def test_the_consumequeue_never_decides() -> None:
    assert Sql92Filter("a = 5").matches_code(0)
    assert Sql92Filter("a = 5").needs_properties


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("a = ", "Encountered the end of the expression at line 1, column 3"),
        ("a AND OR b", "Encountered 'OR' at line 1, column 7"),
        ("a = 5\nAND #", "Lexical error at '#' at line 2, column 5"),
        ("", "Encountered the end of the expression at line 1, column 1"),
        ("a > 'x'", "Value ''x'' cannot be compared. at line 1, column 5"),
        ("a = NULL", "'NULL' cannot be compared. at line 1, column 5"),
        ("5", "Expression will not result in a boolean value: 5 at line 1, column 1"),
        (
            "a BETWEEN 5 AND 3",
            "Illegal values of between, left value(5) must less than or equal to right value(3) at line 1, column 17",
        ),
        ("5 IN ('x')", "Expected a property for In expression, got: 5 at line 1, column 10"),
        ("a > 0.0", "0.0 is less than 4.9E-324 at line 1, column 5"),
        ("a = 9223372036854775808", 'For input string: "9223372036854775808" at line 1, column 5'),
    ],
)
def test_an_error_says_what_and_where(expression: str, text: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        Sql92Filter(expression)
    assert str(caught.value) == f"Invalid filter expression: {text}"


def test_an_expression_is_compiled_once() -> None:
    assert Sql92Filter("a = 'once'")._evaluate is Sql92Filter("a = 'once'")._evaluate


def test_long_lists_of_conditions_are_no_problem() -> None:
    many = " OR ".join(f"a = '{n}'" for n in range(3000))
    assert Sql92Filter(many, WIDE).matches_message({"a": "2999"})
    assert not Sql92Filter(many, WIDE).matches_message({"a": "3000"})


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(FilterSyntaxError, match="nested deeper"):
        Sql92Filter("NOT " * (DEEPEST + 1) + "a")


def test_parentheses_cost_no_stack() -> None:
    assert Sql92Filter("(" * 30000 + "a = 1" + ")" * 30000, WIDE).matches_message({"a": "1"})


def test_a_huge_expression_is_refused() -> None:
    with pytest.raises(FilterSyntaxError, match="Longer than"):
        Sql92Filter("a = '" + "x" * DEFAULT_LIMITS.length + "'")


@pytest.mark.parametrize("costly", [" OR ".join(["a=1"] * 500), "+" * 2000 + "1 = a", "(" * 600 + "a" + ")" * 600])
def test_a_costly_expression_is_refused_before_it_is_parsed(costly: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ariane.filter.expression.parse", lambda text: pytest.fail("was parsed"))
    with pytest.raises(FilterSyntaxError, match="More than 1024"):
        Sql92Filter(costly)


def test_texts_and_comments_are_one_token_each() -> None:
    spacious = f"/* {'+ ' * 2000} */ a = '{'+ ' * 1500}' -- {'+ ' * 100}\n"
    assert DEFAULT_LIMITS.check(spacious) == 5
    assert Sql92Filter(spacious).matches_message({"a": "+ " * 1500})


def test_a_lower_limit_of_depth_counts() -> None:
    assert Sql92Filter("NOT NOT NOT a", Limits(depth=5))
    with pytest.raises(FilterSyntaxError, match="nested deeper than 3"):
        Sql92Filter("NOT NOT NOT a", Limits(depth=3))


def test_a_flood_of_new_expressions_is_put_off_and_known_ones_are_not() -> None:
    clock = ManualClock()
    refused: list[str] = []
    compiler = ExpressionCompiler(Limits(tokens=3), clock.monotonic, refused.append)
    for n in range(16):
        assert compiler.compile(f"a = {n}").matches_message({"a": str(n)})
    with pytest.raises(FilterBusy, match="try again"):
        compiler.compile("a = 16")
    assert compiler.compile("a = 0").matches_message({"a": "0"})
    clock.advance(1 / 16)
    assert compiler.compile("a = 16").matches_message({"a": "16"})
    with pytest.raises(FilterBusy):
        compiler.compile("a = 17")
    assert refused == ["rate", "rate"]


WORDS = ["a", "b", "5", "5.5", "'x'", "TRUE", "NULL", "AND", "OR", "NOT", "IN", "BETWEEN", "IS", "(", ")", ",", "="]
SIGNS = ["<>", "<", ">=", "-", "+", "--\n", "/*", "*/", "1e999", "'", "#", "0.0"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS + SIGNS), max_size=20).map(" ".join)))
@example("a = 'x' \ud800")
def test_any_text_compiles_or_is_a_syntax_error_and_never_fails_on_a_message(text: str) -> None:
    try:
        compiled = Sql92Filter(text)
    except FilterSyntaxError:
        return
    for properties in RECORDED["properties"]:
        compiled.matches_message(properties)


@given(
    st.text(), st.sampled_from(["a > 5", "a = 5.5", "a = TRUE", "a <= b", "a IN ('x')", "a BETWEEN 1 AND 5000000000"])
)
@example("1" * 5000, "a > 5")
@example("1" * 5000, "a = 5.5")
def test_any_property_text_gets_a_verdict(value: str, expression: str) -> None:
    assert Sql92Filter(expression).matches_message({"a": value, "b": value}) in (True, False)
