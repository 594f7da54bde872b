"""The interface of a filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

TAG = "TAG"
SQL92 = "SQL92"
EXPRESSION = "EXPRESSION"
"""SQL92 extended by values of JSON bodies."""
WASM = "WASM"
"""A WebAssembly module that the group has uploaded; the expression is its digest."""


class MessageFilter(Protocol):
    """Decides which messages a consumer gets: first by the consumequeue entry, then by the message itself."""

    needs_properties: bool
    """False: `matches_message` is always true, so the properties need not be decoded."""

    def matches_code(self, tags_code: int) -> bool:
        """Whether the message can match, by the tags code of its consumequeue entry."""
        ...

    def matches_message(self, properties: Mapping[str, str]) -> bool:
        """Whether the message matches, by its properties."""
        ...


class MatchAll:
    """Every message, for a subscription that filters nothing here."""

    needs_properties = False

    def matches_code(self, tags_code: int) -> bool:
        """Always."""
        return True

    def matches_message(self, properties: Mapping[str, str]) -> bool:
        """Always."""
        return True


def is_tag_type(expression_type: str | None) -> bool:
    """Whether a subscription is by tags: the type says so, or says nothing."""
    return not expression_type or expression_type == TAG
