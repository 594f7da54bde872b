"""The tool for power cuts does what it says."""

import os
from pathlib import Path

import pytest

from tests.power_cut import PowerCutDisk, needs_power_cuts


@needs_power_cuts
@pytest.mark.slow
def test_a_cut_keeps_what_was_synced_and_forgets_the_rest(tmp_path: Path) -> None:
    with PowerCutDisk(tmp_path, size=32 << 20) as disk:
        with (disk.folder / "synced").open("wb") as file:
            file.write(b"kept")
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(disk.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        (disk.folder / "unsynced").write_bytes(b"lost")
        disk.cut()
        disk.restore()
        assert (disk.folder / "synced").read_bytes() == b"kept"
        unsynced = disk.folder / "unsynced"
        assert not unsynced.exists() or unsynced.read_bytes() != b"lost"
