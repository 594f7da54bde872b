"""Programs that read the files of `deploy/`: most come with the test environment, some from the system."""

import os
import shutil
import sys
from pathlib import Path

import pytest


def tool(name: str, install: str) -> str:
    """The path of a program, from this environment first; the test is skipped without it."""
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = shutil.which(name, path=places)
    if found is None:
        pytest.skip(f"{name} is not installed: {install}")
    return found
