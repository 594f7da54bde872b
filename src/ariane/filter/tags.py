"""Filtering by tags: their hash codes are in the consumequeue, so no message need be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ariane.filter.interface import MatchAll, MessageFilter
from ariane.filter.java_values import INTEGER_MAX, INTEGER_MIN, JAVA_BLANKS
from ariane.protocol.bodies import ALL_TAGS
from ariane.protocol.java import signed32, string_hash


class TagFilter:
    """Messages whose tag has one of some hash codes; the consumer compares the texts.

    >>> TagFilter.of_expression("a || b").matches_code(97)
    True
    """

    needs_properties = False

    def __init__(self, codes: Iterable[int]) -> None:
        self.codes = frozenset(codes)

    @classmethod
    def of_expression(cls, expression: str | None) -> MessageFilter:
        """The filter of `a || b`; `*`, an empty text and None match every message."""
        if not expression or expression == ALL_TAGS:
            return MatchAll()
        return cls(string_hash(tag) for tag in split_tags(expression))

    def matches_code(self, tags_code: int) -> bool:
        """Whether the code, of which only the low 32 bits count, is among the wanted ones."""
        if tags_code in self.codes:
            return True
        return not INTEGER_MIN <= tags_code <= INTEGER_MAX and signed32(tags_code) in self.codes

    def matches_message(self, properties: Mapping[str, str]) -> bool:
        """Always: the code has decided."""
        return True


def split_tags(expression: str) -> tuple[str, ...]:
    """The tags of `a || b` in order, without blanks around them and without empty ones."""
    return tuple(tag for part in expression.split("||") if (tag := part.strip(JAVA_BLANKS)))
