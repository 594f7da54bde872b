"""Tags: decided by hash code at the consumequeue."""

from __future__ import annotations

import pytest

from ariane.filter import TagFilter, is_tag_type, split_tags
from ariane.protocol.java import string_hash


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_star_and_nothing_take_every_message(expression: str | None) -> None:
    every = TagFilter.of_expression(expression)
    assert every.matches_code(0)
    assert every.matches_code(-1)
    assert every.matches_message({})


def test_a_list_of_tags_takes_those_tags_only() -> None:
    some = TagFilter.of_expression("TagA || TagB||中文 ||")
    assert [some.matches_code(string_hash(tag)) for tag in ("TagA", "TagB", "中文", "TagC", "")] == [True] * 3 + [
        False
    ] * 2
    assert some.matches_message({})
    assert not some.needs_properties


def test_a_message_without_tags_has_code_zero_and_matches_no_list() -> None:
    assert not TagFilter.of_expression("TagA").matches_code(0)


def test_only_the_low_32_bits_of_a_code_count() -> None:
    some = TagFilter([string_hash("TagA"), -5])
    assert some.matches_code(string_hash("TagA") + (1 << 32))
    assert some.matches_code(-5 + (1 << 40))
    assert not some.matches_code((1 << 40) + 1)


def test_a_list_of_nothing_but_separators_takes_nothing() -> None:
    assert split_tags(" || ||") == ()
    assert not TagFilter.of_expression("||").matches_code(0)


def test_a_subscription_without_type_is_by_tags() -> None:
    assert [is_tag_type(type_) for type_ in (None, "", "TAG", "SQL92", "tag")] == [True, True, True, False, False]
