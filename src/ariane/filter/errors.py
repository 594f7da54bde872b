"""What can be wrong with a filter expression."""

from __future__ import annotations


class FilterBusy(Exception):
    """Clients send more new expressions than can be compiled now; try again in a second."""


class FilterSyntaxError(ValueError):
    """An expression that cannot be compiled; its text serves as the remark of SUBSCRIPTION_PARSE_FAILED.

    >>> str(FilterSyntaxError("Encountered 'AND'", 1, 5))
    "Invalid filter expression: Encountered 'AND' at line 1, column 5"
    """

    def __init__(self, reason: str, line: int = 1, column: int = 1, *, limit: str = "") -> None:
        self.reason = reason
        self.limit = limit
        """The field of `Limits` that the expression exceeds, if that is what is wrong."""
        self.line = line
        self.column = column
        super().__init__(f"Invalid filter expression: {reason} at line {line}, column {column}")


class FilterFailed(Exception):
    """A user's filter could not decide about a message; `reason` is the label of the metric."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        super().__init__(text)
