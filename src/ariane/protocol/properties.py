"""The property string of a message: `name SOH value STX name SOH value`."""

from typing import Final

NAME_VALUE: Final = "\x01"
PROPERTY: Final = "\x02"
NAME_END: Final = b"\x01"  # the same as bytes
VALUE_END: Final = b"\x02"


def encode_properties(properties: dict[str, str]) -> str:
    """Encode properties as they are sent and stored; like 4.9.7 without a separator after the last value."""
    return PROPERTY.join([f"{name}{NAME_VALUE}{value}" for name, value in properties.items()])


def decode_properties(text: str) -> dict[str, str]:
    """Decode a property string. Pairs without a name or a value are dropped, as in Apache's decoder."""
    properties: dict[str, str] = {}
    for pair in text.split(PROPERTY):
        name, _, value = pair.partition(NAME_VALUE)
        if name and value:
            properties[name] = value
    return properties


def find_property(text: bytes, name: bytes) -> bytes | None:
    """Find one property in stored bytes without decoding the others."""
    needle = name + NAME_END
    start = 0
    while True:
        at = text.find(needle, start)
        if at < 0:
            return None
        if at == 0 or text[at - 1] == 2:
            begin = at + len(needle)
            end = text.find(VALUE_END, begin)
            return text[begin:] if end < 0 else text[begin:end]
        start = at + 1


def delay_level(text: bytes) -> int:
    """The delay level among stored properties as Java's `Integer.parseInt` reads it; 0 for none and for no number.

    >>> delay_level(b"DELAY\x01+3\x02"), delay_level(b"DELAY\x01x\x02"), delay_level(b"")
    (3, 0, 0)
    """
    value = find_property(text, b"DELAY")
    if value is None:
        return 0
    digits = value[1:] if value[:1] in (b"+", b"-") else value
    return int(value) if digits.isdigit() and len(digits) <= 10 else 0
