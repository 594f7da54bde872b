"""Both ways to look a property up find the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.store import scan

names = st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"XTAGS", b"TAG", b""])
values = st.sampled_from([b"", b"a", b"TAGS", b"KEYS\x01x", b"7F000001"])
pairs = st.lists(st.tuples(names, values), max_size=5)
texts = st.builds(
    lambda found, end: b"\x02".join(n + b"\x01" + v for n, v in found) + end, pairs, st.sampled_from([b"", b"\x02"])
)


@given(texts, st.sampled_from([b"TAGS\x01", b"KEYS\x01", b"UNIQ_KEY\x01"]))
def test_both_ways_agree(properties: bytes, name: bytes) -> None:
    assert scan._found_by_bytes(properties, name) == scan._found_by_parts(properties, name)


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
    assert scan.value_of(properties, b"TAGS\x01") == value
