"""Real power cuts: ext4 in a loop-mounted image, which forgets at a stroke what was not synced.

    with PowerCutDisk(tmp_path / "disk") as disk:
        ...  # start a process that writes to disk.folder
        disk.cut()
        ...  # kill the process
        disk.restore()  # what was synced is there

Needs root, loop devices and mkfs.ext4; `missing()` says what there is not.
"""

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from types import TracebackType

import pytest

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_WITHOUT_LOG = struct.pack("I", 2)  # do not even write the journal out
_TOOLS = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
_ENVIRONMENT = {**os.environ, "PATH": _TOOLS}


def missing() -> str:
    """Why this machine cannot cut the power of a file system; empty when it can."""
    if os.geteuid() != 0:
        return "needs root to mount a file system"
    absent = [tool for tool in ("mkfs.ext4", "mount", "umount") if shutil.which(tool, path=_TOOLS) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices (/dev/loop-control)"
    return ""


needs_power_cuts = pytest.mark.skipif(bool(missing()), reason=f"power cuts: {missing()}")


class PowerCutDisk:
    """A file system of its own in the folder `folder`."""

    def __init__(self, home: Path, size: int = 256 << 20) -> None:
        self.folder = home / "mounted"
        self.folder.mkdir(parents=True)
        self._image = home / "image"
        with self._image.open("wb") as image:
            image.truncate(size)
        _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,nodiscard", str(self._image))
        self._mounted = False
        self.restore()

    def restore(self) -> None:
        """Mount it; after a cut the kernel replays the journal."""
        if self._mounted:
            _run("umount", str(self.folder))
            self._mounted = False
        _run("mount", "-o", "loop", str(self._image), str(self.folder))
        self._mounted = True

    def cut(self) -> None:
        """Forget what was not synced. Every later access fails until `restore`; end the processes on it first."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, _WITHOUT_LOG)
        finally:
            os.close(folder)

    def __enter__(self) -> "PowerCutDisk":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=False, env=_ENVIRONMENT)
            self._mounted = False


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=_ENVIRONMENT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
