"""The journal beside a config file: the changes since the file was last written, one record per append.

A line is the CRC-32 of its payload in hex, a blank, the payload. The first payload names the text that the journal
continues by its CRC-32 and length. A journal that continues another text is not used: the file was written since, by
this broker before a crash or by Apache's, and holds newer values. Reading stops at the first damaged line.
"""

from pathlib import Path
from zlib import crc32

from ariane.env import Files, PlainFile


class Journal:
    """An append-only file of changes. One thread at a time uses it."""

    def __init__(self, files: Files, path: Path) -> None:
        self.path = path
        self._files = files
        self._base = b""
        self._file: PlainFile | None = None
        self._end = 0

    @property
    def size(self) -> int:
        """Bytes appended since the last restart."""
        return self._end

    def records(self, text: str) -> list[bytes]:
        """The payloads of a journal that continues `text`, oldest first."""
        if not self._files.exists(self.path):
            return []
        payloads = []
        for line in self._files.read(self.path).split(b"\n")[:-1]:
            payload = line[9:]
            if line[:9] != b"%08x " % crc32(payload):
                break
            payloads.append(payload)
        return payloads[1:] if payloads and payloads[0] == _base(text) else []

    def restart(self, text: str) -> None:
        """Continue `text`, which is on the disk and includes the records so far: drop them."""
        self._close()
        self._base = _base(text)
        self._files.remove(self.path)

    def append(self, payload: bytes) -> None:
        """Add a record and sync it to the disk."""
        record = _line(payload)
        if self._file is None:
            head = _line(self._base) + record
            self._files.make_folder(self.path.parent)
            self._files.replace(self.path, head)
            self._file, self._end = self._files.open(self.path), len(head)
            return
        self._file.pwrite(self._end, record)
        self._file.sync()
        self._end += len(record)

    def _close(self) -> None:
        file, self._file, self._end = self._file, None, 0
        if file is not None:
            file.close()


def _base(text: str) -> bytes:
    data = text.encode()
    return b"%08x %d" % (crc32(data), len(data))


def _line(payload: bytes) -> bytes:
    assert b"\n" not in payload
    return b"%08x %s\n" % (crc32(payload), payload)
