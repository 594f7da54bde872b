"""The configuration of a group as an entry of its log: voters and learners with their addresses.

It is a message of a system topic that is in no queue, like the first entry of a term, so that Apache's members and
tools pass over it. What makes it a configuration is the channel in the header of its entry, which is 0 in every other
one: no client can write it, whatever it sends.
"""

from typing import Final

import msgspec

from ariane.dledger.storage.entry import ENTRY_HEADER, header_at
from ariane.dledger.storage.log import LedgerLog
from ariane.dledger.storage.term_entry import append_hidden
from ariane.errors import ProtocolError
from ariane.protocol.units import decode_unit
from ariane.raft import Membership

MEMBERS_TOPIC: Final = b"RMQ_SYS_ARIANE_MEMBERS"
CHANNEL: Final = 1


class Members(msgspec.Struct, kw_only=True):
    """A membership as JSON: addresses by id."""

    voters: dict[str, str]
    learners: dict[str, str] = {}

    @classmethod
    def of(cls, membership: Membership) -> "Members":
        """The members with their addresses."""
        addresses = dict(membership.addresses)
        return cls(
            voters={id: addresses.get(id, "") for id in sorted(membership.voters)},
            learners={id: addresses.get(id, "") for id in sorted(membership.learners)},
        )

    @property
    def membership(self) -> Membership:
        """The membership; ProtocolError when it cannot be one."""
        addresses = tuple(sorted({**self.voters, **self.learners}.items()))
        try:
            return Membership(frozenset(self.voters), frozenset(self.learners), addresses)
        except ValueError as error:
            raise ProtocolError(f"no configuration of a group: {error}") from None


_decoder: Final = msgspec.json.Decoder(Members)


def encode_members(membership: Membership) -> bytes:
    """The body of a configuration."""
    return msgspec.json.encode(Members.of(membership))


def decode_members(data: bytes | memoryview) -> Membership:
    """A configuration; ProtocolError when it is malformed."""
    try:
        return _decoder.decode(data).membership
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"no configuration of a group: {error}") from None


def membership_of(record: bytes | memoryview) -> Membership | None:
    """The membership in an entry with its header; None when the entry is none. ProtocolError when it is damaged."""
    view = memoryview(record)
    header = header_at(view, 0)
    if header is None or header.channel != CHANNEL:
        return None
    return decode_members(decode_unit(view[ENTRY_HEADER.size :], check_crc=True).body)


def configuration_entry(ledger: LedgerLog, membership: Membership, now_ms: int) -> None:
    """Append the entry."""
    ledger.entries.channel = CHANNEL
    try:
        append_hidden(ledger, MEMBERS_TOPIC, encode_members(membership), now_ms)
    finally:
        ledger.entries.channel = 0
