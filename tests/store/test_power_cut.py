"""A file system loses power under a writing process: what sync flush acknowledged is there when it comes back."""

import fcntl
import os
import random
import struct
import subprocess
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.store.writing import Book, write_until

pytestmark = pytest.mark.slow

EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_LOG_FLUSH = 2
CUTS = 30


class Image:
    """An ext4 file system in a file, mounted at `folder`."""

    def __init__(self, path: Path) -> None:
        self.file = path / "disk.img"
        self.folder = path / "disk"
        self.folder.mkdir()
        with self.file.open("wb") as file:
            file.truncate(128 << 20)
        run("mkfs.ext4", "-q", "-F", str(self.file))

    def mount(self) -> None:
        run("mount", "-o", "loop", str(self.file), str(self.folder))

    def cut_power(self) -> None:
        """From here on nothing more reaches the disk, the journal's last entries included."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
        finally:
            os.close(fd)

    def unmount(self) -> None:
        run("umount", str(self.folder))


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Image]:
    """A mounted image; skipped where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("a power cut needs root, for a loop device")
    try:
        image = Image(tmp_path)
        image.mount()
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(f"no ext4 image can be mounted here: {error}")
    yield image
    if image.folder.is_mount():
        image.unmount()


def write_and_cut(image: Image, root: Path, count: int, first: int = 0, *, lying: bool = False) -> list[bytes]:
    """Write, cut the power, and bring the file system back; what was acknowledged."""

    def stop(process: BaseProcess) -> None:
        image.cut_power()
        process.kill()

    acknowledged = write_until(root, "SYNC_FLUSH", count, first, stop, lying=lying, with_rest=False)
    image.unmount()
    image.mount()
    return acknowledged


def test_nothing_acknowledged_is_lost_in_thirty_power_cuts(image: Image) -> None:
    book = Book()
    chance = random.Random(30)
    root = image.folder / "store"
    for number in range(CUTS):
        acknowledged = write_and_cut(image, root, chance.randrange(5, 60), number * 100_000)
        book.check(root, "SYNC_FLUSH", acknowledged)
        assert not book.lost, f"cut {number} lost {len(book.lost)} of {len(book.acknowledged)} messages"
    assert len(book.acknowledged) >= CUTS * 5


def test_a_store_that_does_not_sync_loses_messages(image: Image) -> None:
    """Without this the other test would prove nothing."""
    book = Book()
    acknowledged = write_and_cut(image, image.folder / "store", 100, lying=True)
    book.check(image.folder / "store", "SYNC_FLUSH", acknowledged)
    assert book.lost
