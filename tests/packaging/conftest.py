"""What is released, built once: the source archive, and the platform wheel made of it."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.peers.build import locked
from tests.wheel import copy_sources, run


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the test processes of this run share: compiling takes minutes."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "built"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def sdist(built: Path) -> Path:
    with locked(built / "sdist.lock"):
        return next(built.glob("*.tar.gz"), None) or _sdist(built)


@pytest.fixture(scope="session")
def platform_wheel(sdist: Path, built: Path) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("this machine has no C compiler")
    with locked(built / "wheel.lock"):
        return next(built.glob("*.whl"), None) or _platform_wheel(sdist, built)


def _sdist(folder: Path) -> Path:
    run(sys.executable, "-m", "build", "--sdist", "-o", str(folder), str(copy_sources(folder)), ARIANE_PURE="1")
    return next(folder.glob("*.tar.gz"))


def _platform_wheel(sdist: Path, folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--disable-pip-version-check"]
    run(*pip, "-w", str(folder), str(sdist), ARIANE_OPT_LEVEL="0")  # half the time; the same modules
    return next(folder.glob("*.whl"))
