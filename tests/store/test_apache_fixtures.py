"""A store folder written by Apache's broker opens here and gives what its manifest says."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ariane.env import Env
from ariane.store import MessageStore, StoreOptions
from tests.store.conftest import FIXTURES

Unpack = Callable[[str], Path]
BOTH = pytest.mark.parametrize("name", ["store-clean", "store-killed"])


def opened(root: Path, **options: object) -> MessageStore:
    store = MessageStore(StoreOptions(root=root, **options), Env())  # type: ignore[arg-type]
    store.open()
    return store


@BOTH
async def test_queues_have_the_ranges_that_apache_serves(name: str, apache_store: Unpack) -> None:
    store = opened(apache_store(name))
    served = json.loads((FIXTURES / f"{name}.served.json").read_text())
    ours = {f"{t}/{q}": [store.min_offset(t, q), store.max_offset(t, q)] for t, q in store.queues()}
    assert {key: value for key, value in ours.items() if value != [0, 0]} == served
    await store.close()
