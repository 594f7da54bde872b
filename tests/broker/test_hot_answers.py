"""The answers to sends and pulls are the same however they are made."""

from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.pull.answer import found_head, pull_fields
from ariane.broker.send.answer import SendAnswer
from ariane.protocol.command import RESPONSE, Command
from ariane.protocol.frame import encode, encode_head

regions = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(["%d", "111111111", "%%b"])
offsets = st.integers(0, (1 << 63) - 1)


places = st.lists(offsets, min_size=1, max_size=5)


@given(regions, st.booleans(), st.integers(-(1 << 31), (1 << 31) - 1), places, st.integers(0, 1 << 20), offsets)
def test_every_way_gives_the_bytes_of_the_command(
    region: str, traced: bool, opaque: int, places: list[int], queue_id: int, queue_offset: int
) -> None:
    answers = SendAnswer(region, traced)
    ids = ",".join(f"7F00000100002A9F{place:016X}" for place in places)
    command = Command(0, answers.fields(ids, queue_id, queue_offset), opaque=opaque, flag=RESPONSE)
    assert answers.encoded(opaque, b"7F00000100002A9F", places, queue_id, queue_offset) == encode(command)
    one = Command(0, answers.fields(ids[:32], queue_id, queue_offset), opaque=opaque, flag=RESPONSE)
    assert answers.encoded_one(opaque, b"7F00000100002A9F", places[0], queue_id, queue_offset) == encode(one)


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 9), offsets, offsets, offsets, st.integers(0, 1 << 24))
def test_the_head_of_found_messages_is_that_of_the_command(
    opaque: int, broker_id: int, next_offset: int, low: int, high: int, length: int
) -> None:
    command = Command(0, pull_fields(broker_id, next_offset, low, high), opaque=opaque, flag=RESPONSE)
    command.remark = "FOUND"
    assert found_head(opaque, broker_id, next_offset, low, high, length) == encode_head(command, length)
