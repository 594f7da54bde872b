"""The properties of a message on its way into the store, as text: most messages need no decoding."""

from typing import Final

from ariane.message import CLUSTER, DELAY, TRANSACTION_PREPARED, WAIT
from ariane.protocol.properties import decode_properties, encode_properties

_WAIT_TRUE: Final = "WAIT\x01true\x02"
_LAST_WAIT_TRUE: Final = "\x02WAIT\x01true"


def stored_properties(text: str, cluster: str) -> bytes:
    """What is stored: the client's properties without WAIT, which was for us, and with the name of the cluster.

    The last pair has no separator behind it: Apache's broker stores it so, and units must not differ in size.
    """
    if "CLUSTER\x01" in text:
        return _rewritten(text, cluster)
    if "WAIT\x01" in text:
        if text.endswith("\x02" + _WAIT_TRUE):
            text = text[: -len(_WAIT_TRUE)]
        elif text.endswith(_LAST_WAIT_TRUE):
            text = text[: -len(_LAST_WAIT_TRUE)]
        elif text.startswith(_WAIT_TRUE):
            text = text[len(_WAIT_TRUE) :]
        if "WAIT\x01" in text:
            return _rewritten(text, cluster)
    between = "" if not text or text[-1] == "\x02" else "\x02"
    return f"{text}{between}CLUSTER\x01{cluster}".encode()


def _rewritten(text: str, cluster: str) -> bytes:
    properties = decode_properties(text)
    properties.pop(WAIT, None)
    properties[CLUSTER] = cluster
    return encode_properties(properties).encode()


def waits_for_store(text: str) -> bool:
    """Whether the sender wants the answer only when the message is kept; a sender that says nothing does."""
    return "WAIT\x01" not in text or decode_properties(text).get(WAIT, "true").lower() == "true"


def is_prepared(text: str) -> bool:
    """Whether this is the half of a transaction."""
    return decode_properties(text).get(TRANSACTION_PREPARED, "").lower() == "true"


def delay_level(text: str) -> int:
    """The level that a message asks for; 0 for none and for nonsense."""
    if "DELAY\x01" not in text:
        return 0
    level = decode_properties(text).get(DELAY, "0")
    return int(level) if level.isascii() and level.isdigit() else 0


def without_delay(stored: bytes) -> bytes:
    """The same properties without a delay."""
    properties = decode_properties(stored.decode())
    if properties.pop(DELAY, None) is None:
        return stored
    return encode_properties(properties).encode()
