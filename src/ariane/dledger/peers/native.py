"""Messages of the core as bytes, between Ariane's members: one-way requests whose body is one message.

An entry is sent as it is stored, header and body, so that a leader sends slices of its log. Apache's members do not
understand this form; `apache` has theirs.
"""

from collections.abc import Callable, Container, Sequence
from struct import Struct
from struct import error as StructError
from typing import Final

from ariane.dledger.storage.configuration import decode_members, encode_members, membership_of
from ariane.dledger.storage.entry import ENTRY_HEADER, EntryHeader, body_is_whole, header_at
from ariane.errors import ProtocolError
from ariane.raft import (
    AppendEntries,
    AppendReply,
    Entry,
    Heartbeat,
    HeartbeatReply,
    LogStart,
    Message,
    Removed,
    RequestStatus,
    RequestVote,
    ResetLog,
    Status,
    TimeoutNow,
    Vote,
)

RAFT_CODE: Final = 51901  # a code of our own
_ENVELOPE: Final = Struct(">BBB")  # kind, length of the group, length of the source; both follow
_BODIES: Final[dict[int, tuple[type[Message], Struct]]] = {
    1: (RequestVote, Struct(">qqq??")),
    2: (Vote, Struct(">q??")),
    3: (AppendEntries, Struct(">qqqqi")),  # term, previous index, previous term, commit index, count; then the entries
    4: (AppendReply, Struct(">q?qqq")),
    5: (Heartbeat, Struct(">qqq")),
    6: (HeartbeatReply, Struct(">qq")),
    7: (ResetLog, Struct(">q")),  # term; then the entry before the start, and the configuration there
    8: (TimeoutNow, Struct(">qq")),
    9: (RequestStatus, Struct(">qqq")),
    10: (Status, Struct(">qq?q")),
    11: (Removed, Struct(">qqq")),
}
_KINDS: Final = {type_: (kind, body) for kind, (type_, body) in _BODIES.items()}

Records = dict[tuple[int, int], bytes]
"""The bytes of entries by index and term."""


def encode(group: str, message: Message, read: Callable[[Sequence[Entry]], bytes | None]) -> bytes | None:
    """The body of a request; `read` gives the bytes of entries. None when one was deleted meanwhile."""
    kind, body = _KINDS[type(message)]
    name, source = group.encode(), message.source.encode()
    head = _ENVELOPE.pack(kind, len(name), len(source)) + name + source
    if isinstance(message, AppendEntries):
        fields = (message.term, message.prev_log_index, message.prev_log_term, message.leader_commit)
        records = read(message.entries)
        return None if records is None else b"".join((head, body.pack(*fields, len(message.entries)), records))
    if isinstance(message, ResetLog):
        start = message.start
        record = read([Entry(start.index - 1, start.previous_term, -1, 0)])
        return None if record is None else head + body.pack(message.term) + record + encode_members(start.membership)
    return head + body.pack(*message[2:])


def decode(data: bytes, group: str, target: str, known: Container[str]) -> tuple[Message, Records]:
    """A message and the bytes of its entries; ProtocolError when it is malformed, or not from a known member."""
    try:
        kind, name_length, source_length = _ENVELOPE.unpack_from(data)
        at = _ENVELOPE.size + name_length + source_length
        name = data[_ENVELOPE.size : _ENVELOPE.size + name_length].decode()
        source = data[_ENVELOPE.size + name_length : at].decode()
        if name != group or source not in known or source == target:
            raise ProtocolError(f"{source!r} of group {name!r} is no member of {group!r}")
        if kind not in _BODIES:
            raise ProtocolError(f"unknown kind of message: {kind}")
        type_, body = _BODIES[kind]
        fields = body.unpack_from(data, at)
    except (StructError, UnicodeDecodeError) as error:
        raise ProtocolError(f"no message of a ledger: {error}") from None
    at += body.size
    if type_ is AppendEntries:
        term, prev_log_index, prev_log_term, leader_commit, count = fields
        entries, records = _entries(data, at, count, term, prev_log_index, prev_log_term)
        return AppendEntries(source, target, term, prev_log_index, prev_log_term, entries, leader_commit), records
    if type_ is ResetLog:
        header = header_at(memoryview(data), at)
        if header is None or header.index < 0 or not 0 <= header.term <= fields[0]:
            raise ProtocolError("no whole entry to begin a log with")
        end = at + header.size
        membership = decode_members(memoryview(data)[end:])
        start = LogStart(membership, header.index + 1, header.position + header.size, header.term)
        return ResetLog(source, target, fields[0], start), {(header.index, header.term): data[at:end]}
    if at != len(data):
        raise ProtocolError(f"{len(data) - at} bytes too many")
    return type_(source, target, *fields), {}


def _entries(
    data: bytes, at: int, count: int, term: int, index: int, previous_term: int
) -> tuple[tuple[Entry, ...], Records]:
    """The entries after `index`; they must be consecutive, with terms that never decrease."""
    view = memoryview(data)
    entries: list[Entry] = []
    records: Records = {}
    for _ in range(count):
        header = header_at(view, at)
        if header is None or not follows(header, index, previous_term, term):
            raise ProtocolError(f"no entry that follows {index} of term {previous_term}")
        if not body_is_whole(header, view[at + ENTRY_HEADER.size : at + header.size]):
            raise ProtocolError(f"entry {header.index} has a wrong checksum")
        membership = membership_of(view[at : at + header.size]) if header.channel else None
        entries.append(Entry(header.index, header.term, header.position, header.size, membership))
        records[header.index, header.term] = data[at : at + header.size]
        index, previous_term = header.index, header.term
        at += header.size
    if at != len(data):
        raise ProtocolError(f"{len(data) - at} bytes too many")
    return tuple(entries), records


def follows(header: EntryHeader, index: int, previous_term: int, term: int) -> bool:
    """Test whether an entry can follow one with this index and term in the log of a leader of `term`."""
    return header.index == index + 1 and max(previous_term, 0) <= header.term <= term and header.position >= 0
