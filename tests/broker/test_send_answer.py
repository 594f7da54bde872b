"""The answer to a send is the same however it is made."""

from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.send_answer import SendAnswer
from ariane.protocol.command import RESPONSE, Command
from ariane.protocol.frame import encode

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
