"""Writes the entries of queues to their files, in a thread."""

from pathlib import Path
from typing import Final

from ariane.env import Files
from ariane.store.queue.consumequeue import ConsumeQueue
from ariane.store.queue.entries import ENTRY_SIZE
from ariane.store.queue.open_files import OpenFiles

SYNC_ALL_FROM: Final = 64  # with this many files to sync, one sync of the whole file system costs less


class EntriesToWrite:
    """One round of writing: collected on the loop, written in a thread, noted on the loop."""

    def __init__(self, doomed: list[Path]) -> None:
        self.doomed = doomed
        self.items: list[tuple[ConsumeQueue, int, int, bytes]] = []

    def add(self, queue: ConsumeQueue, first: int, data: bytes) -> None:
        self.items.append((queue, queue.epoch, first, data))

    def __bool__(self) -> bool:
        return bool(self.items or self.doomed)


class QueueWriter:
    """Used by the writing thread: holds open files and what is written but not durable yet."""

    def __init__(self, files: Files, root: Path, open_files: int) -> None:
        self._files = files
        self._root = root
        self._opened = OpenFiles(files, open_files)
        self._unsynced: dict[Path, int] = {}
        self._folders: set[Path] = set()

    def write(self, work: EntriesToWrite) -> None:
        for path in work.doomed:
            self.remove(path)
        for queue, _, first, data in work.items:
            fresh = not self._files.is_folder(queue.folder)
            for path in write_entries(self._files, queue, first, data, self._opened):
                self._unsynced[path] = queue.file_bytes
            self._folders.add(queue.folder)
            if fresh:
                self._folders.update((queue.folder.parent, queue.folder.parent.parent))

    def remove(self, path: Path) -> None:
        """Close and delete a file or a folder."""
        self._unsynced.pop(path, None)
        if self._files.is_folder(path):
            self._opened.forget_under(path)
            self._files.remove_folder(path)
            self._unsynced = {file: size for file, size in self._unsynced.items() if path not in file.parents}
            self._folders = {folder for folder in self._folders if folder != path and path not in folder.parents}
        else:
            self._opened.remove(path)

    def sync(self) -> None:
        """Make everything written durable, including the names of new files."""
        if len(self._unsynced) >= SYNC_ALL_FROM:
            self._files.sync_all(self._root)
        else:
            for path, size in self._unsynced.items():
                self._opened.get(path, size).sync()
            for folder in sorted(self._folders):
                self._files.sync_folder(folder)
        self._unsynced.clear()
        self._folders.clear()

    def close(self) -> None:
        self._opened.close()


def write_entries(files: Files, queue: ConsumeQueue, first: int, data: bytes, opened: OpenFiles) -> list[Path]:
    """Write entries to their files (runs in the writing thread); returns the files that must be synced."""
    touched: list[Path] = []
    done = 0
    if not files.is_folder(queue.folder):
        files.make_folder(queue.folder)
    while done < len(data):
        in_file = first % queue.file_entries
        room = (queue.file_entries - in_file) * ENTRY_SIZE
        path = queue.path(first - in_file)
        opened.get(path, queue.file_bytes).pwrite(in_file * ENTRY_SIZE, data[done : done + room])
        touched.append(path)
        first += min(room, len(data) - done) // ENTRY_SIZE
        done += room
    return touched
