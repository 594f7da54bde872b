"""Errors of a configuration."""

from __future__ import annotations

from ariane import errors


class ConfigError(errors.ConfigError, ValueError):
    """An invalid configuration; the text names file, line and key, and suggests a known name.

    >>> str(ConfigError("unknown option", key="brokerNmae", file="broker.conf", line=3, suggestion="brokerName"))
    'broker.conf:3: brokerNmae: unknown option; did you mean brokerName?'
    """

    def __init__(
        self,
        reason: str,
        *,
        key: str = "",
        file: str = "",
        line: int = 0,
        suggestion: str | None = None,
    ) -> None:
        self.reason = reason
        self.key = key
        self.file = file
        self.line = line
        self.suggestion = suggestion
        super().__init__(self._text())

    def _text(self) -> str:
        where = f"{self.file}:{self.line}" if self.file and self.line else self.file
        parts = [part for part in (where, self.key, self.reason) if part]
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return ": ".join(parts) + hint

    def at(self, file: str, line: int) -> ConfigError:
        """The same error with its place in a file."""
        return type(self)(self.reason, key=self.key, file=file, line=line, suggestion=self.suggestion)


class NotUpdatable(ConfigError):
    """The key cannot be changed while the process runs."""
