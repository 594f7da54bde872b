"""Conversions of texts as Java makes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.filter.java_values import NotConvertible, boolean_of, compare_doubles, double_of, integer_of, long_of


def test_doubles_are_ordered_as_java_orders_them() -> None:
    ascending = [-math.inf, -1.0, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]
    for i, left in enumerate(ascending):
        for j, right in enumerate(ascending):
            sign = compare_doubles(left, right)
            assert (sign > 0) - (sign < 0) == (i > j) - (i < j), (left, right)


@given(st.floats())
def test_what_python_prints_of_a_float_reads_back(number: float) -> None:
    text = str(number).replace("inf", "Infinity").replace("nan", "NaN")
    assert compare_doubles(double_of(text), number) == 0


@pytest.mark.parametrize(
    "text", ["", " ", "1_0", "1,0", "nan", "inf", "infinity", "1e", "0x10", "0x1", "1 2", "--1", "1L", "e5"]
)
def test_texts_that_are_no_double(text: str) -> None:
    with pytest.raises(NotConvertible):
        double_of(text)


@pytest.mark.parametrize(
    ("text", "number"), [("\t1.5\n", 1.5), ("1d", 1.0), ("1.F", 1.0), ("-.5e1", -5.0), ("0X1.8P1", 3.0)]
)
def test_texts_that_are_a_double_in_java(text: str, number: float) -> None:
    assert double_of(text) == number


def test_a_double_too_large_is_infinite() -> None:
    assert double_of("1e999") == math.inf
    assert double_of("-0x1p99999") == -math.inf


@pytest.mark.parametrize(
    "text", ["", "+", "-", " 5", "5 ", "5.0", "2147483648", "-2147483649", "1" * 5000, "0x5", "5l", "𝟓"]
)
def test_texts_that_are_no_integer(text: str) -> None:
    with pytest.raises(NotConvertible):
        integer_of(text)


def test_digits_of_other_scripts_are_digits() -> None:
    assert integer_of("٥") == integer_of("５") == 5


def test_limits_of_whole_numbers() -> None:
    assert integer_of("-2147483648") == -(2**31)
    assert long_of("+9223372036854775807") == 2**63 - 1
    with pytest.raises(NotConvertible):
        long_of("9223372036854775808")


def test_only_true_is_true() -> None:
    assert [boolean_of(text) for text in ("true", "TRUE", "tRuE", "yes", "1", "", " true")] == [True] * 3 + [False] * 4
