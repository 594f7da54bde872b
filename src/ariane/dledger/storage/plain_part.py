"""The plain commitlog below a ledger: the files of a broker that ran without DLedger before.

The ledger of such a broker begins where the last of these files ends. A blank record closes that file, as Apache's
broker writes it; the files never change again and expire before those of the ledger. The start of the ledger and the
queue offsets of its entries depend on them, so all members that have them must have the same; `fingerprint` tells.
"""

from pathlib import Path
from typing import Final

from ariane.env import Files
from ariane.protocol.checksum import crc32
from ariane.store.layout import log_names
from ariane.store.log.commitlog import open_files
from ariane.store.log.framing import PlainFraming
from ariane.store.log.log_file import LogFile
from ariane.store.results import StoreDamaged
from ariane.store.units.reading import END_OF_FILE, UNIT

_COMPARED: Final = 1 << 16  # bytes before the end that the fingerprint covers


class PlainPart:
    """The plain files of a member, `folder`; `note` is a file that keeps the end of their last message."""

    def __init__(self, folder: Path, note: Path, files: Files) -> None:
        self.folder = folder
        self.end = -1
        """The end of the last message; -1 when there are no files."""
        self.fingerprint = ""
        """The end and a checksum of the bytes before it; empty when there are no files."""
        self._note = note
        self._files = files
        self._framing = PlainFraming()

    @property
    def exists(self) -> bool:
        """Whether there are files."""
        return bool(log_names(self._files, self.folder))

    def open(self, file_size: int) -> list[LogFile]:
        """Map the files; StoreDamaged when some are missing."""
        return open_files(self._files, self.folder, file_size)

    def check(self, files: list[LogFile], file_size: int, ledger: int) -> None:
        """Raise StoreDamaged unless the files end at offset `ledger`, where the ledger begins; find their end."""
        end = files[-1].base + file_size
        if end < ledger:
            raise StoreDamaged(
                f"the files in {self.folder} end at {end} and the ledger begins at {ledger}: restore the files "
                "between, or move those in the folder away to do without their messages; nothing was changed"
            )
        if end > ledger:
            raise StoreDamaged(
                f"the files in {self.folder} end at {end}, after the start of the ledger at {ledger}: a broker without "
                "DLedger has written to them. Move the files from that offset on away, or move the ledger's folder "
                "away to convert the store again; nothing was changed"
            )
        last, noted = files[-1], self._noted()
        if not last.base <= noted < end or not self._is_blank(last, noted):
            noted = self._search(last)
            self._keep(noted)
        self._know(last, noted)

    def close_last(self, last: LogFile, end: int) -> int:
        """End the last file with a blank record at `end`, durably. Returns how many bytes after it were not zero."""
        dropped, at = 0, end - last.base
        if self._framing.kind_at(last.memory, at) != END_OF_FILE:
            dropped = self._files.clear(last.path, at)
            last.file.write(at, self._framing.filler(last.file.size - at))
            last.file.sync()
        self._keep(end)
        self._know(last, end)
        return dropped

    def forget(self) -> None:
        """The last file was deleted."""
        self.end, self.fingerprint = -1, ""
        if self._files.exists(self._note):
            self._files.remove(self._note)

    def kind_at(self, memory: memoryview, at: int) -> int:
        """What begins at position `at` of a file: UNIT, END_OF_FILE or NOTHING."""
        return self._framing.kind_at(memory, at)

    def _know(self, last: LogFile, end: int) -> None:
        first = max(last.base, end - _COMPARED)
        checksum = crc32(last.memory[first - last.base : end - last.base])
        self.end, self.fingerprint = end, f"{end}:{checksum:08x}"

    def _is_blank(self, last: LogFile, end: int) -> bool:
        at = end - last.base
        return bytes(last.memory[at : at + 8]) == self._framing.filler(last.file.size - at)

    def _search(self, last: LogFile) -> int:
        """The end of the messages in the last file."""
        at = 0
        while self._framing.kind_at(last.memory, at) == UNIT:
            size = int.from_bytes(last.memory[at : at + 4], "big")
            if size <= 0 or at + size > len(last.memory):
                break
            at += size
        return last.base + at

    def _noted(self) -> int:
        text = self._files.read(self._note).decode(errors="replace") if self._files.exists(self._note) else ""
        value = text.removeprefix("plainEnd=").strip()
        return int(value) if value.isascii() and value.isdigit() else -1

    def _keep(self, end: int) -> None:
        self._files.make_folder(self._note.parent)
        self._files.replace(self._note, f"plainEnd={end}\n".encode())
