"""Store folders for the tests: fresh ones, and those that Apache's broker wrote."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recorded import unpack

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture
def apache_store(tmp_path: Path) -> Callable[[str], Path]:
    """Unpack a store that Apache 4.9.7 wrote."""

    return lambda name: unpack(name, tmp_path / name)
