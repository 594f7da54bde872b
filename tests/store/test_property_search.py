"""Both ways to look a property up find the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.store.units import marks as properties_search

names = st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"XTAGS", b"TAG", b""])
values = st.sampled_from([b"", b"a", b"TAGS", b"KEYS\x01x", b"7F000001"])
pairs = st.lists(st.tuples(names, values), max_size=5)
texts = st.builds(
    lambda found, end: b"\x02".join(n + b"\x01" + v for n, v in found) + end, pairs, st.sampled_from([b"", b"\x02"])
)


@given(texts, st.sampled_from([b"TAGS\x01", b"KEYS\x01", b"UNIQ_KEY\x01"]))
def test_both_ways_agree(properties: bytes, name: bytes) -> None:
    assert properties_search._found_by_bytes(properties, name) == properties_search._found_by_parts(properties, name)


@pytest.mark.parametrize(
    ("properties", "value"),
    [
        (b"TAGS\x01a\x02", b"a"),
        (b"TAGS\x01a", b"a"),
        (b"KEYS\x01k\x02TAGS\x01a\x02", b"a"),
        (b"XTAGS\x01x\x02TAGS\x01a\x02", b"a"),
        (b"XTAGS\x01x\x02", None),
        (b"TAGS\x01\x02TAGS\x01late\x02", None),
        (b"", None),
    ],
)
def test_a_property_is_found_by_its_whole_name(properties: bytes, value: bytes | None) -> None:
    assert properties_search.value_of(properties, b"TAGS\x01") == value


@given(texts)
def test_marks_are_the_same_by_both_ways(properties: bytes) -> None:
    marks = properties_search.Marks(properties)
    unique = properties[marks.unique_at : marks.unique_end]
    pairs = [pair.partition(b"\x01") for pair in properties.split(b"\x02")]
    assert unique == next((v for n, s, v in reversed(pairs) if n == b"UNIQ_KEY" and s and v), b"")
    assert bool(marks.unique_end) == bool(unique)


@given(texts, texts)
def test_marks_that_fit_other_properties_are_theirs(properties: bytes, others: bytes) -> None:
    marks = properties_search.Marks(properties)
    if marks.fit(others):
        assert seen(properties_search.Marks(others)) == seen(marks)
    assert marks.fit(properties)


@given(texts, st.binary(min_size=1, max_size=12))
def test_properties_that_differ_in_the_unique_key_alone_have_the_same_marks(properties: bytes, key: bytes) -> None:
    marks = properties_search.Marks(properties)
    if marks.unique_end:
        key = key[: marks.unique_end - marks.unique_at].ljust(marks.unique_end - marks.unique_at, b"x")
        others = properties[: marks.unique_at] + key + properties[marks.unique_end :]
        assert marks.fit(others) == (b"\x02" not in key)


def seen(marks: properties_search.Marks) -> tuple[object, ...]:
    return marks.tags_code, marks.keys, marks.unique_at, marks.unique_end
