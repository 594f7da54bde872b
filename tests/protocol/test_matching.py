"""Parts of bytes are compared where they lie, to the same result as by copies."""

from hypothesis import given
from hypothesis import strategies as st

from ariane.protocol.fast.matching import equal_span, has_byte, stands_at

texts = st.binary(max_size=40) | st.text("ab", max_size=40).map(str.encode)


@given(texts, texts, st.integers(0, 40))
def test_a_part_stands_where_a_slice_would_find_it(part: bytes, text: bytes, at: int) -> None:
    for whole in (text, text[:at] + part + text[at:]):
        assert stands_at(part, whole, at) == (at + len(part) <= len(whole) and whole[at : at + len(part)] == part)


@given(texts, st.data())
def test_spans_differ_by_any_byte(text: bytes, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(text)))
    start = data.draw(st.integers(0, len(text) - size))
    assert equal_span(text, start, b"xy" + text, start + 2, size)
    if size:
        at = data.draw(st.integers(start, start + size - 1))
        changed = text[:at] + bytes((text[at] ^ 128,)) + text[at + 1 :]
        assert not equal_span(text, start, changed, start, size)


@given(st.binary(max_size=40), st.integers(0, 255), st.integers(0, 40), st.integers(0, 40))
def test_a_byte_is_found_between_two_positions(text: bytes, byte: int, start: int, end: int) -> None:
    start, end = min(start, len(text)), min(end, len(text))
    assert has_byte(text, start, end, byte) == (byte in text[start:end])
    assert has_byte(text + bytes((byte,)), 0, len(text) + 1, byte)
