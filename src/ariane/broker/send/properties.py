"""Properties of a sent message as they are stored. They stay bytes: most messages need no decoding."""

from typing import Final

from ariane.message import CLUSTER, DELAY, TRANSACTION_PREPARED, WAIT
from ariane.protocol.fast.property_form import PropertyForm
from ariane.protocol.fast.sending import HAS_CLUSTER, HAS_WAIT, Sending, names_in
from ariane.protocol.properties import decode_properties, encode_properties
from ariane.store import Marks

_CLUSTER: Final = b"CLUSTER\x01"
_UNIQUE: Final = b"UNIQ_KEY\x01"
_WAIT: Final = b"WAIT\x01"
_WAIT_TRUE: Final = b"WAIT\x01true\x02"
_MOST_FORMS: Final = 4096


class StoredForm:
    """The stored form of similar properties: the bytes before and after the unique key, and their common marks."""

    __slots__ = ("after", "before", "marks")

    def __init__(self, stored: bytes, marks: Marks) -> None:
        self.before = stored[: marks.unique_at]
        self.after = stored[marks.unique_end :]
        self.marks = marks


class StoredForms:
    """The forms of properties that producers send, each analysed once."""

    def __init__(self, cluster: bytes) -> None:
        self._cluster = cluster
        self._known: dict[PropertyForm, StoredForm | None] = {}
        self._last: PropertyForm | None = None
        self._found: StoredForm | None = None

    def get(self, sending: Sending) -> StoredForm | None:
        """How the properties of a send are stored; None without a form, or when the stored form depends on the key."""
        form = sending.form
        if form is None:
            return None
        if form is not self._last:
            known = self._known.get(form)
            self._found = self._look(form, sending) if known is None else known
            self._last = form
        return self._found

    def _look(self, form: PropertyForm, sending: Sending) -> StoredForm | None:
        if form in self._known or sending.names & HAS_CLUSTER:
            return None
        if len(self._known) >= _MOST_FORMS:
            self._known.clear()
        stored = stored_properties(sending.properties, sending.names, self._cluster)
        marks = Marks(stored)
        # The varying part may only resemble the unique key: then other messages of this form cannot be predicted.
        certain = stored[marks.unique_at : marks.unique_end] == sending.key and stored.count(_UNIQUE) == 1
        found = self._known[form] = StoredForm(stored, marks) if certain else None
        return found


def stored_properties(raw: bytes, names: int, cluster: bytes) -> bytes:
    """The client's properties as stored: without WAIT, which is for the broker, and with the cluster's name.

    The last pair has no separator after it, as in Apache's broker: units must have the same size.
    """
    if names & HAS_CLUSTER:
        return _rewritten(raw, cluster)
    if names & HAS_WAIT:
        raw = _without_wait(raw)
        if raw.find(_WAIT) >= 0 and names_in(raw) & HAS_WAIT:  # there were two, or one in the middle
            return _rewritten(raw, cluster)
    if raw and raw[-1] != 2:
        return raw + b"\x02" + _CLUSTER + cluster
    return raw + _CLUSTER + cluster


def _without_wait(raw: bytes) -> bytes:
    """Remove WAIT from the end or the beginning, where clients put it."""
    size = len(_WAIT_TRUE)
    if raw[-size:] == _WAIT_TRUE and (len(raw) == size or raw[-size - 1] == 2):
        return raw[:-size]
    if raw[-size:] == b"\x02WAIT\x01true":
        return raw[:-size]
    return raw[size:] if raw[:size] == _WAIT_TRUE else raw


def _rewritten(raw: bytes, cluster: bytes) -> bytes:
    properties = decode_properties(raw.decode())
    properties.pop(WAIT, None)
    properties[CLUSTER] = cluster.decode()
    return encode_properties(properties).encode()


def waits_for_store(raw: bytes, names: int) -> bool:
    """Whether the answer waits until flush and replication are done as configured (the default)."""
    return not names & HAS_WAIT or decode_properties(raw.decode()).get(WAIT, "true").lower() == "true"


def is_prepared(raw: bytes) -> bool:
    """Whether the message is the half of a transaction."""
    return decode_properties(raw.decode()).get(TRANSACTION_PREPARED, "").lower() == "true"


def without_delay(stored: bytes) -> bytes:
    """Remove the delay level."""
    properties = decode_properties(stored.decode())
    if properties.pop(DELAY, None) is None:
        return stored
    return encode_properties(properties).encode()
