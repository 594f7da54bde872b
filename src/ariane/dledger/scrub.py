"""Reads the committed entries again in the background, and repairs those whose bytes have changed on the disk.

Committed entries never change, so index and term name the same bytes on every member that has the entry (log
matching). A member that finds a damaged one asks the others for it; a copy that verifies is written in its place and
synced. The answer goes to the address of the asking member, on the answering member's own connection, as entries of a
leader do: whoever can reach the port cannot read the log by asking.
"""

import asyncio
import logging
from struct import Struct
from struct import error as StructError
from typing import Final, Protocol

from ariane.dledger.options import MemberOptions
from ariane.dledger.peers.peer import Peer, PeerKind
from ariane.dledger.storage.configuration import CHANNEL, membership_of
from ariane.dledger.storage.entry import ENTRY_HEADER, MAGIC, body_is_whole, header_at, unit_is_whole
from ariane.dledger.storage.log import LedgerLog
from ariane.env import Env
from ariane.errors import ProtocolError
from ariane.protocol.command import Command
from ariane.raft import Node
from ariane.remoting import Connection

log = logging.getLogger("ariane.dledger")

ENTRY_CODE: Final = 51903  # a code of our own
_HEAD: Final = Struct(">?qqqBB")  # whether it is an answer, nonce, index, term, lengths of group and source; then both
_STEP: Final = 1 << 17  # bytes read at once
_STEP_ENTRIES: Final = 512
_ASK: Final = 1.0  # seconds until the others are asked again


Place = tuple[int, int, int]
"""Position, size and term of an entry."""


class Scrubbed(Protocol):
    """The part of the member that this module uses."""

    options: MemberOptions

    @property
    def peers(self) -> dict[str, Peer]: ...

    @property
    def node(self) -> Node | None: ...

    @property
    def ledger(self) -> LedgerLog: ...


def is_whole(record: bytes | memoryview, index: int, term: int, position: int) -> bool:
    """Whether bytes are this entry. The own checksum of a message decides where an Apache leader has written none."""
    view = memoryview(record)
    header = header_at(view, 0)
    if header is None or (header.index, header.term, header.position) != (index, term, position):
        return False
    if header.size != len(view) or header.chain_crc or header.channel not in (0, CHANNEL):
        return False
    body = view[ENTRY_HEADER.size :]
    if header.channel:
        try:
            membership_of(view)
        except ProtocolError:
            return False
    if header.body_crc:
        return body_is_whole(header, body)
    return unit_is_whole(body, position + ENTRY_HEADER.size) is not False


class Scrub:
    """Reads the log of one member, round after round, at a limited rate."""

    def __init__(self, member: Scrubbed, env: Env) -> None:
        self._member = member
        self._env = env
        self._nonce = 0
        self.damaged: dict[int, int] = {}
        """Entries that are damaged and not repaired yet: the position of each by its index."""
        self.found = 0
        self.repaired = 0
        self.scrubbed_bytes = 0
        self.rounds = 0

    async def run(self) -> None:
        """Scrub for ever; `scrub_rate` 0 turns it off."""
        options, clock = self._member.options, self._env.clock
        self._nonce = int(self._env.random.random() * (1 << 53))
        index, asked = -1, 0.0
        while options.scrub_rate:
            try:
                index, size = await self._step(index)
            except OSError as error:
                log.error("the ledger could not be read to the end: %s", error)
                index, size = -1, 0
            self.scrubbed_bytes += size
            if self.damaged and clock.monotonic() - asked >= _ASK:
                asked = clock.monotonic()
                self._ask()
            pause = options.scrub_pause_ms / 1000 if index < 0 else size / options.scrub_rate
            await clock.sleep(min(pause, _ASK) if self.damaged else pause)

    async def _step(self, index: int) -> tuple[int, int]:
        """Check some entries from `index` on, -1 for the first; return the next one, or -1 at the end, and the size."""
        node, ledger = self._member.node, self._member.ledger
        if node is None or ledger.first_index < 0:
            return -1, 0
        index = max(index, ledger.first_index)
        last = min(node.log.commit_index, node.log.persisted_index, ledger.last_index)
        wanted: list[tuple[int, int, int, memoryview]] = []  # index, term, position, bytes
        size = 0
        found = ledger.index.get(index - 1) if index > ledger.first_index else None
        for unit in ledger.index.units(index, min(_STEP_ENTRIES, last - index + 1)) if index <= last else ():
            if size >= _STEP:
                break
            term, before, found = node.log.term(index), found, unit
            if found is not None and term is None and index == ledger.first_index:
                term = found[2]  # before the core's log, which begins one entry later
            if term is None or not self._is_placed(before, term, found):
                found = self._place_again(index, term, before)
            memory = None if found is None else ledger.raw(found[0], found[1])
            if found is None or memory is None or len(memory) != found[1]:
                self._find(index, -1 if found is None else found[0])
                if found is None:
                    index = last + 1  # where the next one begins is not known
                    break
                index += 1
                continue
            assert term is not None
            wanted.append((index, term, found[0], memory))
            size += found[1]
            index += 1
        for number, position in await asyncio.to_thread(_damaged, wanted):
            if (entry := ledger.index.get(number)) is not None and entry[0] == position:  # not dropped meanwhile
                self._find(number, position)
        if index > last:
            self.rounds += 1
        return (-1 if index > last else index), size

    def _is_placed(self, before: Place | None, term: int, found: Place | None) -> bool:
        """Whether the unit of the index file agrees with the one before and with the core."""
        if found is None or found[2] != term:
            return False
        return before is None or self._member.ledger.place_after(before[0] + before[1], found[1]) == found[0]

    def _place_again(self, index: int, term: int | None, before: Place | None) -> Place | None:
        """Repair a damaged unit of the index file from the entry itself, after the one before; None if that fails."""
        ledger = self._member.ledger
        if term is None or before is None:
            return None
        end = before[0] + before[1]
        for position in (end, ledger.roll(end)):
            head = ledger.raw(position, ENTRY_HEADER.size)
            size = 0 if head is None else _size(head)
            record = ledger.raw(position, size) if size else None
            if record is not None and is_whole(record, index, term, position):
                log.error("the index of entry %d was damaged: written again", index)
                ledger.index.put(index, position, size, term)
                ledger.index.flush()
                return position, size, term
        return None

    # -- repair -------------------------------------------------------------------------------------------------------

    def _find(self, index: int, position: int) -> None:
        if index not in self.damaged:
            self.found += 1
            log.error("entry %d at %d is damaged on this disk: it is fetched from another member", index, position)
        self.damaged[index] = position

    def _ask(self) -> None:
        """Ask the other members for the damaged entries."""
        node = self._member.node
        for index in list(self.damaged):
            if index < self._member.ledger.first_index:
                del self.damaged[index]  # deleted by age
                continue
            term = None if node is None else node.log.term(index)
            for peer in self._member.peers.values():
                if peer.ready and peer.kind is PeerKind.ARIANE:
                    peer.oneway(ENTRY_CODE, self._encode(False, self._nonce, index, -1 if term is None else term, b""))

    def handle(self, _: Connection, request: Command) -> Command | None:
        """Answer a member that asks for an entry, or take its answer."""
        try:
            answer, nonce, index, term, group_length, source_length = _HEAD.unpack_from(request.body)
            at = _HEAD.size + group_length
            group, source = request.body[_HEAD.size : at].decode(), request.body[at : at + source_length].decode()
        except (StructError, UnicodeDecodeError) as error:
            raise ProtocolError(f"no request for an entry: {error}") from None
        peer = self._member.peers.get(source)
        if group != self._member.options.group or peer is None:
            raise ProtocolError(f"{source!r} of group {group!r} is no member")
        if not answer:
            record = self._record(index, term)
            if record is not None and peer.ready:
                peer.oneway(ENTRY_CODE, self._encode(True, nonce, index, term, record))
        elif nonce == self._nonce and index in self.damaged:
            self._repair(index, request.body[at + source_length :], source)
        return None

    def _encode(self, answer: bool, nonce: int, index: int, term: int, record: bytes) -> bytes:
        group, source = self._member.options.group.encode(), self._member.options.id.encode()
        return _HEAD.pack(answer, nonce, index, term, len(group), len(source)) + group + source + record

    def _record(self, index: int, term: int) -> bytes | None:
        """The bytes of a committed entry, if they are whole here."""
        node, ledger = self._member.node, self._member.ledger
        found = ledger.index.get(index) if ledger.first_index <= index <= ledger.last_index else None
        if node is None or found is None or index > node.log.commit_index or term not in (-1, found[2]):
            return None
        record = ledger.record(found[0], found[1])
        return record if record is not None and is_whole(record, index, found[2], found[0]) else None

    def _repair(self, index: int, record: bytes, source: str) -> None:
        """Write the copy of another member in place of a damaged entry."""
        node, ledger = self._member.node, self._member.ledger
        header = header_at(memoryview(record), 0)
        if node is None or header is None or index < ledger.first_index:
            return
        term, found = node.log.term(index), ledger.index.get(index)
        position = self.damaged[index] if self.damaged[index] >= 0 else header.position
        if term is None:
            term = header.term if found is None else found[2]
        before = ledger.index.get(index - 1) if index > ledger.first_index else None
        placed = self._is_placed(before, term, (position, header.size, term))
        if not placed or not is_whole(record, index, term, position) or ledger.raw(position, 1) is None:
            log.warning("the copy of entry %d from %s is not the same entry: it is not used", index, source)
            return
        try:
            ledger.patch(position, record)
        except OSError as error:
            log.error("entry %d could not be repaired: %s", index, error)
            return
        if not self._is_placed(before, term, found):
            ledger.index.put(index, position, header.size, term)
            ledger.index.flush()
        del self.damaged[index]
        self.repaired += 1
        log.warning("entry %d at %d is repaired with the copy of %s", index, position, source)


def _size(head: memoryview) -> int:
    """The size of an entry by its header, of which the rest is not at hand yet; 0 when it cannot be right."""
    if len(head) < ENTRY_HEADER.size:
        return 0
    fields = ENTRY_HEADER.unpack(head)
    magic, size, body_size = fields[0], fields[1], fields[-1]
    return size if magic == MAGIC and body_size > 0 and size == body_size + ENTRY_HEADER.size else 0


def _damaged(wanted: list[tuple[int, int, int, memoryview]]) -> list[tuple[int, int]]:
    """The entries whose bytes are wrong: index and position. Runs in a thread; committed bytes do not change."""
    return [
        (index, position) for index, term, position, memory in wanted if not is_whole(memory, index, term, position)
    ]
