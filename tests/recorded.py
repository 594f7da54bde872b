"""Stores that were recorded from Apache's brokers (`tests/fixtures`): their files, and what is in them."""

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any, Final

_FIXTURES: Final = Path(__file__).parent / "fixtures"


def unpack(name: str, folder: Path) -> Path:
    """Unpack a recorded store below `folder`; returns its root."""
    with tarfile.open(_FIXTURES / f"{name}.tar.gz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:  # Python 3.11.3 and older; the archives are our own
            archive.extractall(folder)
    return folder / "store"


def read_manifest(name: str) -> dict[str, Any]:
    """What a recorded store holds."""
    with gzip.open(_FIXTURES / f"{name}.manifest.json.gz", "rt", encoding="utf-8") as file:
        manifest: dict[str, Any] = json.load(file)
    return manifest
