"""Store folders for the tests: fresh ones, and those that Apache's broker wrote."""

import gzip
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parent.parent / "fixtures"


def read_manifest(name: str) -> dict[str, Any]:
    with gzip.open(FIXTURES / f"{name}.manifest.json.gz", "rt", encoding="utf-8") as file:
        manifest: dict[str, Any] = json.load(file)
    return manifest


@pytest.fixture
def apache_store(tmp_path: Path) -> Callable[[str], Path]:
    """Unpack a store that Apache 4.9.7 wrote."""

    def unpack(name: str) -> Path:
        with tarfile.open(FIXTURES / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path / name, filter="data")
        return tmp_path / name / "store"

    return unpack
