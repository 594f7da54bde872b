"""Access to the machine: clock, files and randomness. Nothing else in Ariane touches them.

Everything that needs one of them receives it, so that a test can move the clock, fail an fsync or lose unsynced bytes
by passing another object.
"""

from dataclasses import dataclass, field
from random import Random

from ariane.env.clock import Clock, ManualClock, SystemClock
from ariane.env.files import DiskUsage, FileLock, Files, LockHeld, MappedFile, PlainFile
from ariane.env.system import SystemFiles

__all__ = [
    "Clock",
    "DiskUsage",
    "Env",
    "FileLock",
    "Files",
    "LockHeld",
    "ManualClock",
    "MappedFile",
    "PlainFile",
    "SystemClock",
    "SystemFiles",
]


@dataclass(frozen=True)
class Env:
    """Clock, files and randomness as one object."""

    clock: Clock = field(default_factory=SystemClock)
    files: Files = field(default_factory=SystemFiles)
    random: Random = field(default_factory=Random)
