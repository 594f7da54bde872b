"""What is released, built once: the source archive, and the platform wheel made of it."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.wheel import copy_sources, run


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "-o", str(folder), str(copy_sources(folder)), ARIANE_PURE="1")
    return next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def platform_wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("this machine has no C compiler")
    folder = tmp_path_factory.mktemp("platform")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--disable-pip-version-check"]
    run(*pip, "-w", str(folder), str(sdist), ARIANE_OPT_LEVEL="0")  # half the time; the same modules
    return next(folder.glob("*.whl"))
