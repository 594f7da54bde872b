"""What a process costs, read from the kernel's books."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


@dataclass(frozen=True)
class Memory:
    """Resident memory in MiB; `private` leaves out the pages of mapped files, which belong to the page cache."""

    resident: float
    private: float


def memory(pid: int) -> Memory:
    """The resident memory of a process now."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    kib = {name: int(lines[name].split()[0]) for name in ("VmRSS", "RssAnon")}
    return Memory(kib["VmRSS"] / 1024, kib["RssAnon"] / 1024)


def stolen_seconds() -> float:
    """Time that the machine's host gave to others, on all cores."""
    return int(Path("/proc/stat").read_text().splitlines()[0].split()[8]) / _TICK
