"""An option: its name in the file, type, range, and what Ariane does with it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ariane.errors import ConfigError
from ariane.settings.host import Host

Value = str | int | float | bool
Default = Value | None | Callable[[Host], Value | None]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
LONGEST_NAME = 100  # longer keys get no suggestion: the comparison would take long


@dataclass(frozen=True, slots=True)
class Option:
    """One row of an option table."""

    name: str
    kind: type[str] | type[int] | type[float] | type[bool]
    default: Default
    low: float = 0
    high: float = INT_MAX
    choices: tuple[Value, ...] = ()
    unit: str = ""
    """Suffix of the attribute name where RocketMQ's own name has no unit: ms, seconds, hours, percent."""
    attr: str = ""
    """The attribute name where the rule (snake case and unit) gives an ugly one."""
    used: bool = True
    """False: no code reads it. Apache knows it and it has no meaning here: accepted, and listed at start as ignored."""
    by_name: bool = False
    """True: read from the settings under its own name; it has no attribute."""
    absent: Callable[[Value], str | None] | None = None
    """For a value that asks for a feature this version does not have: the sentence that refuses the start."""
    live: bool = False
    """True: may be changed while the process runs."""
    own: bool = False
    """True: not an option of Apache's; shown only when the file sets it."""
    important: bool = False
    """True: printed by `mqbroker -m`."""
    secret: bool = False
    """True: never shown."""
    aliases: tuple[str, ...] = ()
    check: Callable[[str], str | None] | None = None
    """For text: returns what is wrong with a value, or None."""

    @property
    def attribute(self) -> str:
        """The attribute name.

        >>> Option("flushIntervalCommitLog", int, 500, unit="ms").attribute
        'flush_interval_commit_log_ms'
        """
        return self.attr or snake_case(self.name) + (f"_{self.unit}" if self.unit else "")

    def default_for(self, host: Host) -> Value | None:
        """The default value on this host."""
        return self.default(host) if callable(self.default) else self.default

    def parse(self, text: str) -> Value:
        """Parse and check a value; ConfigError tells what is expected."""
        try:
            value = self._convert(text.strip())
            self._check_range(value)
            problem = self.check(value) if self.check is not None and isinstance(value, str) else None
            if problem:
                raise ConfigError(problem, key=self.name)
        except ConfigError as error:
            if re.search(r"\s#", text):
                raise ConfigError(f"{error.reason}: put the comment on a line of its own", key=self.name) from None
            raise
        return value

    def _convert(self, text: str) -> Value:
        if self.kind is str:
            return text
        if self.kind is bool:
            return self._boolean(text)
        try:
            if not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", text):
                raise ValueError(text)
            return int(text) if self.kind is int else float(text)
        except ValueError:
            wanted = "a whole number" if self.kind is int else "a number"
            raise ConfigError(f"expected {wanted}, got {text!r}", key=self.name) from None

    def _boolean(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"expected true or false, got {text!r}", key=self.name)
        return text.lower() == "true"

    def _check_range(self, value: Value) -> None:
        if self.choices and value not in self.choices:
            wanted = ", ".join(java_text(choice) for choice in self.choices)
            near = difflib.get_close_matches(java_text(value), [java_text(c) for c in self.choices], 1)
            raise ConfigError(
                f"expected one of {wanted}, got {java_text(value)!r}",
                key=self.name,
                suggestion=near[0] if near else None,
            )
        if isinstance(value, str | bool):
            return
        if not self.low <= value <= self.high:
            raise ConfigError(f"{value} is out of range {self.low}..{self.high}", key=self.name)


def ignored(name: str, kind: type[str] | type[int] | type[bool], default: Default) -> Option:
    """An option of Apache's that has no meaning here: any value of its type is accepted."""
    low = -LONG_MAX if kind is int else 0
    return Option(name, kind, default, low=low, high=LONG_MAX, used=False)


def absent(feature: str) -> Callable[[Value], str | None]:
    """For `Option.absent`: refuse every value that switches a feature on, that is all but false, 0 and nothing.

    >>> absent("Access control is not available")(True)
    'Access control is not available. Remove the option.'
    """
    return lambda value: f"{feature}. Remove the option." if value else None


class OptionTable:
    """All options of a process by their name in the file."""

    def __init__(self, options: Iterable[Option]) -> None:
        self._options: dict[str, Option] = {}
        self._aliases: dict[str, str] = {}
        for option in options:
            assert option.name not in self._options, f"{option.name} is in the table twice"
            self._options[option.name] = option
            self._aliases.update(dict.fromkeys(option.aliases, option.name))

    def __iter__(self) -> Iterator[Option]:
        return iter(self._options.values())

    def find(self, key: str) -> Option:
        """The option of a key or alias; ConfigError with a suggestion when there is none."""
        option = self._options.get(self._aliases.get(key, key))
        if option is None:
            raise ConfigError("unknown option", key=key, suggestion=self.nearest(key))
        return option

    def nearest(self, key: str) -> str | None:
        """The known name closest to the key, if any is close."""
        if len(key) > LONGEST_NAME:
            return None
        by_lower = {name.lower(): name for name in self._options}
        close = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=0.7)
        return by_lower[close[0]] if close else None


def snake_case(name: str) -> str:
    """`brokerIP1` to `broker_ip1`, `tls.server.keyPath` to `tls_server_key_path`."""
    plain = name.replace(".", "_")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).lower()


def java_text(value: Value) -> str:
    """A value as Java prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
