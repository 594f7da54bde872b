"""What a process costs, and how busy the machine was meanwhile, read from the kernel's books."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_SCHEDULED = 2  # of the three clocks of a process, the one to the nanosecond


def cpu_seconds(pid: int) -> float:
    """User and system time of a process with all its threads, by the clock that the kernel keeps of it."""
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def descendants(pid: int) -> list[int]:
    """A process and everything below it."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except FileNotFoundError:  # it ended meanwhile
                continue
    found, front = [pid], {pid}
    while front := {child for child, parent in parents.items() if parent in front}:
        found += front
    return found


def cpu_with_children(pid: int) -> float:
    """User and system time of a process, and of its children that ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / _TICK


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


@dataclass(frozen=True)
class Machine:
    """Seconds of all cores together: busy with anything, and given by the host to others."""

    busy: float
    stolen: float


def machine() -> Machine:
    """The machine's books now; the difference of two is what happened between them."""
    user, nice, system, _, _, interrupt, soft, stolen = (
        int(word) / _TICK for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return Machine(user + nice + system + interrupt + soft, stolen)


def open_files(pid: int) -> int:
    """How many file descriptors a process holds."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def mappings(pid: int) -> int:
    """How many memory mappings a process holds; the kernel's default limit is 65,530."""
    return Path(f"/proc/{pid}/maps").read_bytes().count(b"\n")
