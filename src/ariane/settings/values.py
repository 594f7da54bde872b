"""The checked values of all options of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ariane.errors import ConfigError
from ariane.settings.errors import NotUpdatable
from ariane.settings.host import Host
from ariane.settings.options import Option, OptionTable, Value, java_text
from ariane.settings.properties import Entry, parse_properties


@dataclass(frozen=True)
class Settings:
    """Every option of a table with its effective value; immutable."""

    table: OptionTable
    values: Mapping[str, Value | None] = field(repr=False)  # passwords among them
    given: frozenset[str] = frozenset()
    """The names that a file, the command line or an update set."""
    file: str = ""
    """The properties file, where changes at run time are kept; empty when there is none."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of the file that set an option; 0 when the command line or an update set it."""

    @classmethod
    def load(cls, table: OptionTable, text: str, *, file: str, host: Host) -> Settings:
        """Load a properties file over the defaults of the host."""
        defaults = {option.name: option.default_for(host) for option in table}
        return cls(table, defaults, file=file)._with_entries(parse_properties(text, file), file)

    @property
    def ignored(self) -> tuple[str, ...]:
        """The options that were set and that no code reads, in table order."""
        return tuple(
            option.name
            for option in self.table
            if option.name in self.given and not option.used and option.absent is None
        )

    def refuse_absent(self) -> None:
        """Raise ConfigError for the first value that asks for a feature this version does not have."""
        for option in self.table:
            value = self.values[option.name]
            sentence = None if option.absent is None or value is None else option.absent(value)
            if sentence is not None:
                raise self.error(option.name, sentence)

    def __getitem__(self, name: str) -> Value | None:
        return self.values[name]

    def text(self, name: str) -> str | None:
        """The value as Java prints it, or None when the option has none."""
        value = self.values[name]
        return None if value is None else java_text(value)

    def attributes(self) -> dict[str, Value | None]:
        """The values of the options that code reads as attributes, by attribute name."""
        return {o.attribute: self.values[o.name] for o in self.table if o.used and not o.by_name}

    def shown(self, important_only: bool = False) -> Iterable[Option]:
        """The options that may be shown: all of Apache's, and others that were set; no secrets."""
        for option in self.table:
            visible = not option.secret and (not option.own or option.name in self.given)
            if visible and (option.important or not important_only):
                yield option

    def properties(self) -> dict[str, str]:
        """The options that may be shown with their values as Java prints them; one without a value is left out."""
        texts = ((option.name, self.text(option.name)) for option in self.shown())
        return {name: text for name, text in texts if text is not None}

    def printed(self, important_only: bool = False) -> list[tuple[str, str]]:
        """Like `properties`, with an empty text for an option without a value: what `-p` prints, or `-m`."""
        return [(option.name, self.text(option.name) or "") for option in self.shown(important_only)]

    def replaced(self, changes: Mapping[str, Value]) -> Settings:
        """A copy with other values of named options, checked like those of a file."""
        return self._with_entries([Entry(key, java_text(value), 0) for key, value in changes.items()], "")

    def updated(self, key: str, value: str) -> Settings:
        """A copy with one option changed at run time; NotUpdatable unless it may be changed while running."""
        try:
            option = self.table.find(key)
        except ConfigError as error:
            raise NotUpdatable(error.reason, key=key, suggestion=error.suggestion) from None
        if not option.live:
            raise NotUpdatable("cannot be changed while running", key=key)
        return self.replaced({key: value})

    def assumed(self, effective: Mapping[str, Value | None]) -> Settings:
        """A copy with derived values, which do not count as set by the user."""
        return replace(self, values={**self.values, **effective})

    def error(self, name: str, reason: str) -> ConfigError:
        """A ConfigError about an option, with file and line if a file set it."""
        line = self.lines.get(name)
        return ConfigError(reason, key=name, file="" if line == 0 else self.file, line=line or 0)

    def _with_entries(self, entries: Iterable[Entry], file: str) -> Settings:
        """A copy with the entries of a file, or of none; an error names file and line."""
        values = dict(self.values)
        lines = dict(self.lines)
        for entry in entries:
            try:
                option = self.table.find(entry.key)
                values[option.name] = option.parse(entry.value)
            except ConfigError as error:
                raise error.at(file, entry.line) from None
            lines[option.name] = entry.line
        given = self.given | lines.keys()
        return replace(self, values=values, given=given, lines=lines)
