"""What the doctor found, and what to do about it."""

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"


class Finding(NamedTuple):
    """One finding."""

    severity: Severity
    check: str
    """A short name that scripts can rely on."""
    text: str
    advice: str = ""
    """What to do next."""


def error(check: str, text: str, advice: str) -> Finding:
    """Something that does not work."""
    return Finding(Severity.ERROR, check, text, advice)


def warning(check: str, text: str, advice: str) -> Finding:
    """Something that will not work for everybody, or not for long."""
    return Finding(Severity.WARNING, check, text, advice)


def fine(check: str, text: str) -> Finding:
    """Something that was looked at and is as it should be."""
    return Finding(Severity.OK, check, text)
