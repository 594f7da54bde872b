"""The log of a resend run: records each letter begun and done, so that each is sent exactly once.

One JSON object a line, synced before the next step. A run that is started again with the same file continues where
the last one stopped; a letter that was begun and not done is first searched in its topic.
"""

import json
import os
from pathlib import Path
from typing import TextIO

from ariane.errors import ClientError

BEGUN, DONE = "begun", "done"


class ResendLog:
    """Which dead letters were sent again."""

    def __init__(self, path: Path | None) -> None:
        self._state: dict[str, str] = {}
        self._file: TextIO | None = None
        if path is not None:
            if path.exists():
                self._read(path)
            self._file = path.open("a", encoding="utf-8")

    def _read(self, path: Path) -> None:
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                entry = json.loads(line)
                self._state[entry["letter"]] = entry["state"]
            except (ValueError, KeyError, TypeError):
                text = f"{path}, line {number}: not the log of a resend run; name another file"
                raise ClientError(text) from None
        if len(whole) < len(content):  # torn last line after a crash: ignore it
            os.truncate(path, len(whole))

    def is_done(self, letter: str) -> bool:
        """Whether a letter was sent by this run or an earlier one with the same file."""
        return self._state.get(letter) == DONE

    def is_begun(self, letter: str) -> bool:
        """Whether a letter may have been sent: an earlier run stopped at it."""
        return self._state.get(letter) == BEGUN

    def begin(self, letter: str) -> None:
        """Note that a letter is about to be sent."""
        self._note(letter, BEGUN)

    def done(self, letter: str, message_id: str) -> None:
        """Note that a letter was sent."""
        self._note(letter, DONE, message_id=message_id)

    def _note(self, letter: str, state: str, **more: str) -> None:
        self._state[letter] = state
        if self._file is not None:
            self._file.write(json.dumps({"letter": letter, "state": state, **more}) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
