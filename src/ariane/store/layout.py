"""Paths in a store folder, and the names of its files."""

from pathlib import Path
from typing import Final

from ariane.env import Files

NAME_DIGITS: Final = 20


def file_name(offset: int) -> str:
    """The name of a log or queue file: the offset of its first byte.

    >>> file_name(1073741824)
    '00000000001073741824'
    """
    return f"{offset:0{NAME_DIGITS}d}"


def is_file_name(name: str) -> bool:
    return len(name) == NAME_DIGITS and name.isascii() and name.isdigit()


def log_names(files: Files, folder: Path) -> list[str]:
    """The files of a log or a queue, oldest first."""
    return [name for name in files.list(folder) if is_file_name(name)]


class Layout:
    """The paths of a store."""

    def __init__(self, root: Path, commitlog: Path) -> None:
        self.root = root
        self.commitlog = commitlog
        self.consumequeue = root / "consumequeue"
        self.index = root / "index"
        self.config = root / "config"
        self.checkpoint = root / "checkpoint"
        self.durable_end = root / "durable-end"
        self.deleted_topics = root / "deleted-topics"
        self.abort = root / "abort"
        self.lock = root / "lock"

    def queue(self, topic: str, queue_id: int) -> Path:
        return self.consumequeue / topic / str(queue_id)
