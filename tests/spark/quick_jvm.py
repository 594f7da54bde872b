"""Flags for the JVMs of Spark. Tests are short: start-up counts, not speed.

Half of the CPU of a short session is loading and verifying classes. The first test process that needs Spark writes the
classes of a small session to an archive in the checkout's `.cache`, which every later JVM maps.
"""

import fcntl
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.peers.build import CACHE

FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL_SESSION = Path(__file__).parent / "small_session.py"


def quick_jvm() -> str:
    """The flags, with the archive if there is one or this process can make it now."""
    archive = CACHE / f"spark-{_versions()}.jsa"
    if not archive.exists():
        _make(archive)
    # -Xlog:disable: a JVM with another class path must not print that it ignores the archive, in what others read.
    return f"{FLAGS} -XX:SharedArchiveFile={archive} -Xlog:disable" if archive.exists() else FLAGS


def _versions() -> str:
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return f"{version('pyspark')}-{''.join(c if c.isalnum() else '_' for c in said.splitlines()[1])}"


def _make(archive: Path) -> None:
    """Write it beside its place and rename it. Without one, sessions start as usual: a failure costs time only."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process makes it; do not wait
            return
        part = archive.with_suffix(f".{os.getpid()}")
        flags = f"{FLAGS} -XX:ArchiveClassesAtExit={part} -Xlog:disable"
        subprocess.run([sys.executable, str(SMALL_SESSION), flags], capture_output=True, check=False, timeout=200)
        if part.exists():
            part.rename(archive)
