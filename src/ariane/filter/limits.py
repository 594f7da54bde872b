"""Limits of an SQL92 expression: anyone may send one, and every message is compared with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from ariane.filter.errors import FilterSyntaxError

DEEPEST = 200
"""No limit of depth may exceed this one: evaluation nests as deep as the expression does."""

# Roughly the lexer's tokens: a comment, a quoted text, a word or number, an operator, any other character.
_TOKEN = re.compile(r"--[^\n\r]*[\n\r]|/\*.*?\*/|'(?:''|[^'])*'|[\w$.]+|<>|[<>]=|\S", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long, how costly and how deeply nested an expression may be."""

    length: int = 8192
    """Characters."""
    tokens: int = 1024
    """Names, values, operators and brackets: each costs about 10 microseconds to compile and 0.1 to evaluate."""
    depth: int = DEEPEST

    def check(self, expression: str) -> int:
        """The number of tokens; FilterSyntaxError, long before a parser would notice, when there are too many."""
        if len(expression) > self.length:
            raise FilterSyntaxError(f"Longer than {self.length} characters", 1, self.length + 1, limit="length")
        count = sum(1 for _ in islice(_TOKEN.finditer(expression), self.tokens + 1))
        if count > self.tokens:
            raise FilterSyntaxError(f"More than {self.tokens} names, values and operators", limit="tokens")
        return count


DEFAULT_LIMITS = Limits()
