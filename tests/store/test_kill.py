"""A process with four writers is killed with SIGKILL again and again: nothing acknowledged is lost, in either mode."""

import random
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.store.writing import Book, write_until

pytestmark = pytest.mark.slow

KILLS = 25  # in each of the two modes


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(flush: str, tmp_path: Path) -> None:
    book = Book()
    chance = random.Random(flush)
    for kill in range(KILLS):
        count = chance.randrange(20, 300)
        acknowledged = write_until(tmp_path, flush, count, kill * 100_000, BaseProcess.kill)
        book.check(tmp_path, flush, acknowledged)
        assert not book.lost
    assert len(book.acknowledged) > KILLS * 20
