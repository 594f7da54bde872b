"""The two small files of a ledger, Java properties as Apache's nodes write them: `currterm` and `checkpoint`."""

from pathlib import Path
from typing import NamedTuple

from ariane.env import Files
from ariane.raft import HardState

ABSTAINING = "abstaining"  # a key of our own, which Apache's nodes do not read


class LedgerCheckpoint(NamedTuple):
    """The last durable entry and the last committed one when the checkpoint was written; -1 for none."""

    end_index: int = -1
    committed_index: int = -1


def load_hard_state(files: Files, path: Path) -> HardState | None:
    """Term and vote; None when the file is missing or unreadable."""
    values = _read(files, path)
    term = values.get("currTerm", "")
    if not term.isascii() or not term.isdigit():
        return None
    return HardState(int(term), values.get("voteLeader") or None, values.get(ABSTAINING) == "true")


def save_hard_state(files: Files, path: Path, state: HardState) -> None:
    """Store term and vote durably."""
    text = f"voteLeader={state.vote or ''}\ncurrTerm={state.term}\n"
    if state.abstaining:
        text += f"{ABSTAINING}=true\n"
    files.replace(path, text.encode())


def load_checkpoint(files: Files, path: Path) -> LedgerCheckpoint:
    """The checkpoint; (-1, -1) when it is missing."""
    values = _read(files, path)
    try:
        return LedgerCheckpoint(int(values.get("endIndex", "-1")), int(values.get("committedIndex", "-1")))
    except ValueError:
        return LedgerCheckpoint()


def save_checkpoint(files: Files, path: Path, checkpoint: LedgerCheckpoint) -> None:
    """Store the checkpoint; everything up to its end must be durable."""
    text = f"committedIndex={checkpoint.committed_index}\nendIndex={checkpoint.end_index}\n"
    files.replace(path, text.encode())


def _read(files: Files, path: Path) -> dict[str, str]:
    if not files.exists(path):
        return {}
    values = {}
    for line in files.read(path).decode("utf-8", "replace").splitlines():
        key, found, value = line.partition("=")
        if found and not line.startswith("#"):
            values[key.strip()] = value.strip()
    return values
