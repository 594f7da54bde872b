"""Patterns of addresses: what they let in, and which are errors."""

from ipaddress import ip_address

import pytest

from ariane.access.addresses import AddressPattern

MATCHES = [
    ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
    ("fe80::1", "fe80:0:0::1", "fe80::2"),
    ("10.1.2.3,10.1.2.4", "10.1.2.4", "10.1.2.5"),
    ("10.1.2.{3,4}", "10.1.2.3", "10.1.2.5"),
    ("2::{1,5}", "2::5", "2::2"),
    ("10.1.2.*", "10.1.2.255", "10.1.3.1"),
    ("10.1.*.*", "10.1.9.9", "10.2.9.9"),
    ("10.*.*.*", "10.200.9.9", "11.2.9.9"),
    ("10.1.2.3-9", "10.1.2.9", "10.1.2.10"),
    ("10.1.3-9.*", "10.1.3.255", "10.1.10.1"),
    (" 127.0.0.*", "127.0.0.1", "127.0.1.1"),
    ("fe80::*", "fe80::ffff", "fe80::1:1"),
    ("2::78:0-ff", "2::78:ff", "2::78:100"),
    ("2::ac5:78:1-200:*", "2::ac5:78:200:1", "2::ac5:78:201:1"),
    ("127.*.0.7", "127.9.0.7", "127.9.0.8"),  # Apache's broker looks at the first `*` alone
    ("127.0.*.5-7", "127.0.9.6", "127.0.9.8"),
    ("2::0-5", "2::5", "2:0:0:0:ac5:78:1:2"),
    ("10.1.2.3", "::ffff:10.1.2.3", "::ffff:10.1.2.4"),
]


@pytest.mark.parametrize(("pattern", "inside", "outside"), MATCHES)
def test_a_pattern_means_what_it_says(pattern: str, inside: str, outside: str) -> None:
    parsed = AddressPattern.parse(pattern)
    assert parsed.matches(ip_address(inside).packed)
    assert not parsed.matches(ip_address(outside).packed)


@pytest.mark.parametrize("pattern", ["*", "*.*.*.*", "*:*:*:*:*:*:*:*"])
def test_asterisks_alone_match_everybody(pattern: str) -> None:
    for address in ("10.1.2.3", "fe80::1"):
        assert AddressPattern.parse(pattern).matches(ip_address(address).packed)


@pytest.mark.parametrize("pattern", ["", "  ", "1.2.3.{}"])
def test_a_blank_pattern_matches_nobody(pattern: str) -> None:
    assert not AddressPattern.parse(pattern).matches(ip_address("1.2.3.4").packed)


ERRORS = [
    *("127.*", "127.0.*", "1.2.3", "host.name", "10.0.0.0/8", "1.2.3.4:80", "[::1]", "1.2.3.{1, 2}", "1.{2,3}.4.5"),
    *(
        "1.2.3.9-1",
        "1.2.3.0-256",
        "1.2.3.-5",
        "1.2.3.5-",
        "256.0.0.*",
        "1.2.3.4;1.2.3.5",
        " 1.2.3.4",
        "1.2.3.4, 1.2.3.5",
    ),
    # Apache's broker loads these, and then fails at each request.
    *("*.0.0.1", "10-20.0.0.1", "1.2.3.0-0", "::*", "1.2.3.*;1.2.4.*"),
    *("1::2::*", "fe80::*:1", "1-5::*", "1:2:3:4:5:6:7:8:*", "1.2.3.{*}", "1.2.3.{1-5}", "fe80::1%eth0", "1.2.3.٤-٥"),
]


@pytest.mark.parametrize("pattern", ERRORS)
def test_a_pattern_that_cannot_work_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        AddressPattern.parse(pattern)
