"""The wheel for any platform that users install and ship, built once for all tests that need it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


@pytest.fixture(scope="session")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = copy_sources(folder)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--disable-pip-version-check"]
    run(*pip, "-w", str(folder), str(sources), ARIANE_PURE="1")
    return next(folder.glob("*.whl"))


def copy_sources(folder: Path) -> Path:
    """What a build needs of the checkout, below a folder."""
    sources = folder / "sources"
    ignore = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", sources / "src", ignore=ignore)
    for name in SOURCES:
        shutil.copy(ROOT / name, sources / name)
    return sources


def run(*command: str, **environment: str) -> str:
    """What a command prints; it must succeed."""
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, **environment}
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
