"""The properties file format, read as `java.util.Properties` reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.settings import ConfigError, Entry, OptionTable, Settings, format_properties, parse_properties
from ariane.settings.edit import edited
from ariane.settings.host import Host
from ariane.settings.options import Option, snake_case


def pairs(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse_properties(text)}


# The right-hand sides are what a JVM's java.util.Properties gives for the same text.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a \t = \t b  ", {"a": "b  "}),
        ("a", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a= :b", {"a": ":b"}),
        ("# a=b\n! c=d\n  # e=f\n", {}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\n# c", {"a": "b# c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("# comment \\\na=b", {"a": "b"}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\t\\n\\r\\f\\z", {"a": "\t\n\r\fz"}),
        ("a=\\u4e2d\\u6587", {"a": "中文"}),
        ("\\\n\n\\\n! x\na=b", {"a": "b"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert pairs(text) == expected


def test_entries_know_the_line_on_which_they_begin() -> None:
    assert parse_properties("\n# c\na=1\\\n  2\n\nb=3") == [Entry("a", "12", 3), Entry("b", "3", 6)]


def test_an_escaped_surrogate_pair_is_one_character_and_half_of_one_is_refused() -> None:
    assert pairs("a=\\ud83d\\ude00") == {"a": "😀"}
    for half in ("\\ud83d", "\\ude00", "\\ude00\\ud83d", "x\\ud83dx"):
        with pytest.raises(ConfigError, match=r"x.conf:2: a .uxxxx escape is half of a surrogate pair"):
            parse_properties(f"a=b\nc={half}", "x.conf")
        with pytest.raises(ConfigError, match="surrogate pair"):
            parse_properties(f"{half}=c")


def test_malformed_unicode_escape_names_its_line() -> None:
    with pytest.raises(ConfigError, match=r"x.conf:2: malformed"):
        parse_properties("a=b\nc=\\u12g4", "x.conf")


@given(
    st.dictionaries(st.from_regex(r"[A-Za-z.]+", fullmatch=True), st.from_regex(r"[^\s\\][^\\\r\n]*", fullmatch=True))
)
def test_what_is_formatted_reads_back(values: dict[str, str]) -> None:
    kept = {key: value for key, value in values.items() if value[0] not in "=:"}
    assert pairs(format_properties(kept)) == kept


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("brokerIP1", "broker_ip1"),
        ("checkCRCOnRecover", "check_crc_on_recover"),
        ("useTLS", "use_tls"),
        ("tls.server.keyPath", "tls_server_key_path"),
        ("flushIntervalCommitLog", "flush_interval_commit_log"),
    ],
)
def test_attribute_names_follow_the_file_names(name: str, attribute: str) -> None:
    assert snake_case(name) == attribute


def test_an_alias_sets_the_option_it_stands_for() -> None:
    table = OptionTable([Option("new", int, 1, aliases=("old",))])
    settings = Settings.load(table, "old=5", file="f", host=Host())
    assert settings["new"] == 5
    assert settings.given == {"new"}


def test_surrounding_blanks_do_not_count() -> None:
    table = OptionTable([Option("number", int, 1), Option("text", str, "")])
    settings = Settings.load(table, "number = 5  \ntext = a b  ", file="f", host=Host())
    assert (settings["number"], settings["text"]) == (5, "a b")


def test_two_escapes_make_one_character_and_half_of_one_is_refused() -> None:
    assert parse_properties(r"k = \ud83d\ude00!")[0].value == "\U0001f600!"
    for half in (r"k = \ud83d", r"k = \ude00\ud83d", r"\ud83d = v"):
        with pytest.raises(ConfigError, match="half of a surrogate pair"):
            parse_properties(half)


def test_only_line_ends_of_properties_files_end_lines() -> None:
    text = "# page\x0cbreak \u2028 here\na=1\n# last\nb=2\n"
    assert edited(text, {"b": "3"}) == text.replace("b=2", "b=3")


def test_a_line_break_in_a_changed_value_begins_no_other_option() -> None:
    text = edited("a=1\n", {"a": "2\nb=3\r\nc\\"})
    assert [(entry.key, entry.value) for entry in parse_properties(text)] == [("a", "2\nb=3\r\nc\\")]
