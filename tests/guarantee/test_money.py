"""Money is neither lost nor made while everything fails; the documents' way loses some."""

from pathlib import Path

import pytest

from tests.guarantee.money import transfer
from tests.guarantee.servers import ServerMissing, or_skip

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["postgresql"])
def test_every_transfer_is_booked_once_while_everything_fails(kind: str, tmp_path: Path) -> None:
    try:
        verdict = transfer(kind, 600, 1, tmp_path)
    except ServerMissing as error:
        or_skip(error)
    assert verdict.wrong == []
    assert len(verdict.faults) == 8
    assert verdict.booked + verdict.refused == 600


def test_the_documents_way_loses_what_a_killed_consumer_had_in_hand(tmp_path: Path) -> None:
    try:
        verdict = transfer("postgresql", 150, 1, tmp_path, documents=True, only="consumer killed", rounds=3)
    except ServerMissing as error:
        or_skip(error)
    assert [told for told in verdict.wrong if "was booked 0 times" in told]
