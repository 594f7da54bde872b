"""The small files of `config/`: a crash leaves the old text or the new one, and a `.bak` beside it."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ariane.env import Files

log = logging.getLogger("ariane.store")

T = TypeVar("T")


class ConfigFile:
    """A text file that is read with a fallback and replaced as a whole.

    `parse` turns the text into a value and raises ValueError (or KeyError, TypeError) when the text is damaged.
    """

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        self.backup = path.with_name(path.name + ".bak")
        self._files = files
        self._good: str | None = None  # the last valid text, for the next .bak

    @property
    def text(self) -> str:
        """The text that was last loaded or saved, empty when there was none."""
        return self._good or ""

    def load(self, parse: Callable[[str], T]) -> T | None:
        """The value of the file, else of its `.bak`; None when neither is there or can be read."""
        for path in (self.path, self.backup):
            if self._files.exists(path):
                try:
                    text = self._files.read(path).decode()
                    value = parse(text)
                except (ValueError, KeyError, TypeError) as error:
                    log.error("%s is damaged, its backup is used if there is one: %s", path, error)
                    continue
                self._good = text
                return value
        return None

    def save(self, text: str) -> None:
        """Replace the text; what it replaces is kept as `.bak`."""
        if text == self._good and self._files.exists(self.path):
            return
        self._files.make_folder(self.path.parent)
        if self._good is not None:
            self._files.replace(self.backup, self._good.encode())
        self._files.replace(self.path, text.encode())
        self._good = text
