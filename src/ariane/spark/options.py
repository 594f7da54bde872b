"""Options as Spark passes them: text under case-insensitive names, each checked by name and value before any work."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from ariane.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True)
class SparkOptions:
    """The options of one read or write, by their documented names."""

    values: Mapping[str, str]

    @classmethod
    def check(cls, options: Mapping[str, str], known: Collection[str], source: str) -> "SparkOptions":
        """Take what Spark passed; ConfigError names an option that this source does not have."""
        names = {name.lower(): name for name in known}
        unknown = sorted(name for name in options if name.lower() not in names)
        if unknown:
            raise ConfigError(
                f"{source} has no option {', '.join(unknown)}; its options are {', '.join(sorted(known))}"
            )
        return cls({names[name.lower()]: str(value) for name, value in options.items()})

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def required(self, name: str) -> str:
        value = self.values.get(name, "").strip()
        if not value:
            raise ConfigError(f"option {name} is required")
        return value

    def text(self, name: str, default: str = "") -> str:
        return self.values.get(name, default).strip()

    def flag(self, name: str, default: bool) -> bool:
        return self._parse(name, default, _flag)

    def count(self, name: str, default: int | None, least: int = 1) -> int | None:
        return self._parse(name, default, lambda text: _at_least(int(text), least))

    def number(self, name: str, default: int, least: int = 1) -> int:
        return self._parse(name, default, lambda text: _at_least(int(text), least))

    def milliseconds(self, name: str) -> int | None:
        """A point in time: milliseconds since 1970, or a date and time in ISO form."""
        return self._parse(name, None, _milliseconds)

    def one_of(self, name: str, default: str, choices: Collection[str]) -> str:
        return self._parse(name, default, lambda text: _one_of(text, choices))

    def names(self, name: str) -> tuple[str, ...]:
        """A list in one option, by commas."""
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())

    def pattern(self, name: str) -> "re.Pattern[str] | None":
        return self._parse(name, None, re.compile)

    def exclusive(self, *names: str) -> None:
        """ConfigError when more than one of them is given."""
        given = [name for name in names if name in self.values]
        if len(given) > 1:
            raise ConfigError(f"options {' and '.join(given)} contradict each other: give one")

    def _parse(self, name: str, default: T, parse: Callable[[str], T]) -> T:
        value = self.text(name)
        if not value:
            return default
        try:
            return parse(value)
        except (ValueError, json.JSONDecodeError, re.error) as error:
            raise ConfigError(f"option {name}={value!r}: {error}") from None


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def _at_least(value: int, least: int) -> int:
    if value < least:
        raise ValueError(f"must be {least} or more")
    return value


def _one_of(text: str, choices: Collection[str]) -> str:
    for choice in choices:
        if text.lower() == choice.lower():
            return choice
    raise ValueError(f"must be one of {', '.join(choices)}")


def _milliseconds(text: str) -> int:
    if text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
