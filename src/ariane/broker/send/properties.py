"""The properties of a message on its way into the store, as bytes: most messages need no decoding."""

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
    """How properties of one form are stored: what stands around the unique key, and what is true of all of them."""

    __slots__ = ("before", "behind", "marks")

    def __init__(self, stored: bytes, marks: Marks) -> None:
        self.before = stored[: marks.unique_at]
        self.behind = stored[marks.unique_end :]
        self.marks = marks


class StoredForms:
    """The forms of the properties that producers send now, each looked at once."""

    def __init__(self, cluster: bytes) -> None:
        self._cluster = cluster
        self._known: dict[PropertyForm, StoredForm | None] = {}
        self._last: PropertyForm | None = None
        self._found: StoredForm | None = None

    def get(self, sending: Sending) -> StoredForm | None:
        """How the properties of a send are stored, if they have a form and that does not depend on the unique key."""
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
        # The form may vary in what only looks like a unique key: then nothing is known of others of this form.
        certain = stored[marks.unique_at : marks.unique_end] == sending.key and stored.count(_UNIQUE) == 1
        found = self._known[form] = StoredForm(stored, marks) if certain else None
        return found


def stored_properties(raw: bytes, names: int, cluster: bytes) -> bytes:
    """What is stored: the client's properties without WAIT, which was for us, and with the name of the cluster.

    The last pair has no separator behind it: Apache's broker stores it so, and units must not differ in size.
    """
    if names & HAS_CLUSTER:
        return _rewritten(raw, cluster)
    if names & HAS_WAIT:
        raw = _without_wait(raw)
        if raw.find(_WAIT) >= 0 and names_in(raw) & HAS_WAIT:  # it was there twice, or elsewhere
            return _rewritten(raw, cluster)
    if raw and raw[-1] != 2:
        return raw + b"\x02" + _CLUSTER + cluster
    return raw + _CLUSTER + cluster


def _without_wait(raw: bytes) -> bytes:
    """The same without the one pair at the end or at the beginning, where clients put it."""
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
    """Whether the sender wants the answer only when the message is kept; a sender that says nothing does."""
    return not names & HAS_WAIT or decode_properties(raw.decode()).get(WAIT, "true").lower() == "true"


def is_prepared(raw: bytes) -> bool:
    """Whether this is the half of a transaction."""
    return decode_properties(raw.decode()).get(TRANSACTION_PREPARED, "").lower() == "true"


def without_delay(stored: bytes) -> bytes:
    """The same properties without a delay."""
    properties = decode_properties(stored.decode())
    if properties.pop(DELAY, None) is None:
        return stored
    return encode_properties(properties).encode()
