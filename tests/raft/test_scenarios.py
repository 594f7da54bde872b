"""Every scenario file says what happens; see `scenario.py` for its commands."""

from pathlib import Path

import pytest

from tests.raft.scenario import FOLDER, run

FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    expected = path.read_text()
    assert run(expected) == expected, f"if the change is wanted: python -m tests.raft.scenario {path.name}"
    assert expected.count("\n----\n") > 3
