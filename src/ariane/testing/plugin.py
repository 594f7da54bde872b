"""Pytest fixtures for users' tests: put `pytest_plugins = ["ariane.testing.plugin"]` into the first conftest.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ariane.testing.cluster import Cluster


@pytest.fixture
def ariane_cluster(tmp_path: Path) -> "Iterator[Cluster]":
    """A name server and a broker of the test's own, gone at its end."""
    from ariane.testing.cluster import Cluster

    with Cluster(tmp_path / "ariane") as cluster:
        yield cluster
