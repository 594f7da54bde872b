"""One call of a subcommand: its options as they were given, and where it prints."""

import sys
from dataclasses import dataclass, field

from ariane.client.admin import Admin
from ariane.errors import ArianeError


class UsageError(ArianeError):
    """The options do not fit the subcommand; the text says how they would."""


@dataclass(frozen=True)
class Flag:
    """An option of a subcommand."""

    short: str
    long: str
    takes_value: bool
    required: bool


@dataclass
class Call:
    """A subcommand that runs: options by their letter, the admin client, and the output."""

    name: str
    admin: Admin
    namesrv: str
    values: dict[str, str] = field(default_factory=dict)

    def has(self, letter: str) -> bool:
        """Whether an option was given."""
        return letter in self.values

    def text(self, letter: str) -> str:
        """The value of a required option."""
        return self.values[letter].strip()

    def optional(self, letter: str) -> str | None:
        """The value of an option; None when it was not given."""
        return self.values[letter].strip() if letter in self.values else None

    def boolean(self, letter: str, default: bool = False) -> bool:
        """`true` in any case is true, any other value false."""
        return self.values[letter].strip().lower() == "true" if letter in self.values else default

    def number(self, letter: str, default: int = 0) -> int:
        """A whole number."""
        if letter not in self.values:
            return default
        try:
            return int(self.values[letter].strip())
        except ValueError:
            raise UsageError(f"-{letter} {self.values[letter]}: a whole number is needed") from None

    async def masters(self) -> list[str]:
        """The broker of -b, or the masters of the cluster of -c; UsageError with neither."""
        if self.has("b"):
            return [self.text("b")]
        return await self.admin.masters(self.cluster())

    def cluster(self) -> str:
        """The cluster of -c."""
        if not self.has("c"):
            raise UsageError(f"{self.name}: give -b BROKER-ADDRESS or -c CLUSTER")
        return self.text("c")

    def line(self, text: str = "") -> None:
        """Print a line."""
        sys.stdout.write(text + "\n")

    def write(self, text: str) -> None:
        """Print without ending the line."""
        sys.stdout.write(text)

    def row(self, form: str, *cells: object) -> None:
        """Print a line of columns, in printf's form."""
        self.line(form % cells)


def parse(flags: list[Flag], words: list[str]) -> dict[str, str]:
    """Values by letter, as commons-cli's PosixParser reads them: `-t x`, `-tx`, `--topic x`, `--topic=x`, `-topic x`.

    >>> parse([Flag("t", "topic", True, True), Flag("l", "list", False, False)], ["-l", "--topic=orders"])
    {'l': 'true', 't': 'orders'}
    """
    by_name = {flag.short: flag for flag in flags} | {flag.long: flag for flag in flags}
    values: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, given = word.lstrip("-").partition("=")
        if not word.startswith("-") or word == "-":
            raise UsageError(f"{word!r} is not an option")
        flag = by_name.get(name)
        if flag is None and not word.startswith("--") and (flag := by_name.get(word[1])) is not None:
            rest = word[2:]
            if flag.takes_value:
                given, equals = rest, "="
            else:
                left.insert(0, f"-{rest}")
        if flag is None:
            raise UsageError(f"there is no option {word}")
        if not flag.takes_value:
            values[flag.short] = "true"
        elif equals:
            values[flag.short] = given
        elif left:
            values[flag.short] = left.pop(0)
        else:
            raise UsageError(f"{word} needs a value")
    return values
