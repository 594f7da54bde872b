"""The bodies of Apache's DLedger requests: JSON as fastjson writes it, keys sorted, nulls left out.

The remoting header only names the code of a request; the code of an answer is always 200, and the real one is in its
body.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

import msgspec

from ariane.errors import ProtocolError

METADATA: Final = 50000
APPEND: Final = 50001
GET: Final = 50002
VOTE: Final = 51001
HEART_BEAT: Final = 51002
PULL: Final = 51003
PUSH: Final = 51004
LEADERSHIP_TRANSFER: Final = 51005
CHANGE_MEMBERS: Final = 51902  # a code of our own, like that of `native`

OK: Final = 200
UNKNOWN_GROUP: Final = 400
UNKNOWN_MEMBER: Final = 401
UNEXPECTED_MEMBER: Final = 402
EXPIRED_TERM: Final = 403
NOT_LEADER: Final = 404
NOT_FOLLOWER: Final = 405
INCONSISTENT_STATE: Final = 406
INCONSISTENT_TERM: Final = 407
INCONSISTENT_LEADER: Final = 409
UNEXPECTED_ARGUMENT: Final = 411
REPEATED_PUSH: Final = 413
TERM_NOT_READY: Final = 416
TAKE_LEADERSHIP_FAILED: Final = 418
INTERNAL_ERROR: Final = 500
UNSUPPORTED: Final = 412

_B = TypeVar("_B", bound="Body")


class Body(msgspec.Struct, kw_only=True, omit_defaults=False):
    """A body with the common fields. Fields that are None are omitted."""

    group: str | None = None
    remoteId: str | None = None
    localId: str | None = None
    code: int = OK
    leaderId: str | None = None
    term: int = -1

    _decoders: ClassVar[dict[type, msgspec.json.Decoder[Any]]] = {}

    @classmethod
    def decode(cls: type[_B], data: bytes) -> _B:
        """Decode a body; ProtocolError when it is malformed."""
        decoder = Body._decoders.get(cls)
        if decoder is None:
            decoder = Body._decoders[cls] = msgspec.json.Decoder(cls)
        try:
            return decoder.decode(data)  # type: ignore[no-any-return]
        except msgspec.MsgspecError as error:
            raise ProtocolError(f"no {cls.__name__}: {error}") from None

    def encode(self) -> bytes:
        """The bytes that Apache's node would write."""
        fields = {name: getattr(self, name) for name in sorted(self.__struct_fields__)}
        return msgspec.json.encode({name: value for name, value in fields.items() if value is not None}, order="sorted")


class ArianeStatus(msgspec.Struct, kw_only=True):
    """Additional fields of an Ariane member, which Apache's members ignore."""

    term: int
    endIndex: int
    committedIndex: int
    role: str
    new: bool
    """Whether the member has never run: no term, no entry."""
    serving: bool = False
    broker: str = ""
    """The address of its broker, where the group's metadata is."""
    learners: list[str] = []
    """The members, among `peers`, that do not vote yet."""
    membersIndex: int = -1
    """The entry of the newest configuration that the member has."""
    membersCommitted: bool = True
    damaged: int = 0
    """Entries that its scrub has found damaged and that are not repaired yet."""
    repaired: int = 0
    outside: str = ""
    """Why the member does not belong to the group; empty when it does."""
    plain: str = ""
    """The fingerprint of the plain commitlog below its ledger; empty when it has none."""
    beginning: str = ""
    """A checksum of the first entry of all; empty when the member has it no more, or not yet committed."""
    writable: bool = True
    """Whether its store takes messages; a member with a full disk should not lead."""


class Metadata(Body, kw_only=True):
    """50000, request and answer."""

    peers: dict[str, str] | None = None
    ariane: ArianeStatus | None = None


class VoteRequest(Body, kw_only=True):
    """51001: a candidate, `leaderId`, asks for a vote."""

    ledgerEndIndex: int = -1
    ledgerEndTerm: int = -1


class VoteResponse(Body, kw_only=True):
    """The answer to 51001: ACCEPT, or the reason of the refusal."""

    voteResult: str = "UNKNOWN"


class HeartBeat(Body, kw_only=True):
    """51002, request and answer."""


class PushedEntry(msgspec.Struct, kw_only=True):
    """An entry within a push; the body in base64."""

    body: bytes
    bodyCrc: int = 0
    chainCrc: int = 0
    channel: int = 0
    index: int
    magic: int
    pos: int
    size: int
    term: int


class PushRequest(Body, kw_only=True):
    """51004 of one of four types: APPEND, COMMIT, COMPARE, TRUNCATE."""

    batch: bool = False
    batchEntry: list[PushedEntry] = []
    commitIndex: int = -1
    count: int = 0
    entry: PushedEntry | None = None
    firstEntryIndex: int = -1
    lastEntryIndex: int = -1
    totalSize: int = 0
    type: str = "APPEND"


class PushResponse(Body, kw_only=True):
    """The answer to 51004."""

    beginIndex: int = -1
    count: int = 0
    endIndex: int = -1
    index: int | None = None


class TransferRequest(Body, kw_only=True):
    """51005: take the leadership, or transfer it."""

    takeLeadershipLedgerIndex: int = 0
    transferId: str | None = None
    transfereeId: str | None = None


class MembersRequest(Body, kw_only=True):
    """51902, Ariane's own: add or remove a member; for the leader."""

    action: str = ""
    member: str = ""
    address: str = ""
    force: bool = False


class MembersResponse(Body, kw_only=True):
    """The answer to 51902; `remark` says why it was refused."""

    index: int = -1
    remark: str = ""


class AppendRequest(Body, kw_only=True):
    """50001, which is refused: any caller could append bytes that are not a message."""


class AppendResponse(Body, kw_only=True):
    """The answer to 50001."""

    index: int = -1
    pos: int = -1
