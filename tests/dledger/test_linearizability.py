"""A sample of `make dledger-history`: what clients see of a group under faults is linearizable, says porcupine."""

from copy import deepcopy
from pathlib import Path

import pytest

from tests.dledger.linearizability.recorder import History, Operation, build_checker, check, missing, record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing() or "-"),
]


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_checker(tmp_path_factory.mktemp("checker"))


async def test_a_history_with_faults_is_linearizable_and_tampered_ones_are_not(checker: Path, tmp_path: Path) -> None:
    history = await record(tmp_path, 2, seed=5)
    assert history.count("append") > 50
    assert history.count("read") > 50
    assert check(checker, history, tmp_path / "history")[0] == 0
    for tamper in (lose_an_acknowledged_append, give_an_offset_twice, read_an_old_end, replace_a_message_that_was_read):
        tampered = History()
        tampered.operations = deepcopy(history.operations)
        tamper(tampered.operations)
        code, text = check(checker, tampered, tmp_path / "tampered")
        assert code == 1, f"{tamper.__name__}: {text}"


def _known(operations: list[Operation], op: str) -> list[Operation]:
    """Operations of queue 0 that returned, in the order of their offsets."""
    found = [one for one in operations if one["op"] == op and one["queue"] == 0 and one["return"] >= 0]
    return sorted(found, key=lambda one: (one["offset"], one["call"]))


def lose_an_acknowledged_append(operations: list[Operation]) -> None:
    operations.remove(_known(operations, "append")[5])


def give_an_offset_twice(operations: list[Operation]) -> None:
    appends = _known(operations, "append")
    appends[9]["offset"] = appends[8]["offset"]


def read_an_old_end(operations: list[Operation]) -> None:
    reads = _known(operations, "read")
    reads[-1]["offset"], reads[-1]["value"] = reads[0]["offset"], reads[0]["value"]


def replace_a_message_that_was_read(operations: list[Operation]) -> None:
    ends = {one["offset"] for one in _known(operations, "read")}
    next(one for one in _known(operations, "append") if one["offset"] + 1 in ends)["value"] = "another"
