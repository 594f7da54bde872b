"""Options are checked when they are made."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ariane.store import StoreOptions


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("commitlog_file_size", 0),
        ("consumequeue_file_entries", 0),
        ("index_entries", 1),
        ("flush", "SOMETIMES"),
        ("flush_interval", timedelta(0)),
        ("sync_flush_timeout", timedelta(seconds=-1)),
        ("delete_when", "25"),
        ("delete_when", "4 o'clock"),
        ("max_message_size", 0),
        ("disk_warning_percent", 0),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        StoreOptions(root=Path("/s"), **{name: value})


def test_the_log_may_lie_elsewhere() -> None:
    assert StoreOptions(root=Path("/s")).commitlog_folder == Path("/s/commitlog")
    assert StoreOptions(root=Path("/s"), commitlog=Path("/fast")).commitlog_folder == Path("/fast")
