"""A running member: drives the core with the files of a store and the connections to the other members.

Everything runs on the event loop; syncing the log and storing a vote run in threads and report back. After each input
the core's work is done at once (`_work`), so that files, role and core never disagree.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ariane.dledger.fitting import begins_elsewhere, fits
from ariane.dledger.introductions import COPY, Introductions
from ariane.dledger.membership_changes import MembershipChanges
from ariane.dledger.options import MemberOptions
from ariane.dledger.peers.apache_requests import ApacheRequests
from ariane.dledger.peers.apache_sender import ApacheSender
from ariane.dledger.peers.native import RAFT_CODE, Records, decode, encode
from ariane.dledger.peers.peer import HostGate, Peer, PeerKind
from ariane.dledger.peers.table import PeerTable
from ariane.dledger.peers.wire import CHANGE_MEMBERS, ArianeStatus, Metadata
from ariane.dledger.pending_appends import Committed, PendingAppends
from ariane.dledger.scrub import ENTRY_CODE, Scrub
from ariane.dledger.storage.configuration import Members, configuration_entry
from ariane.dledger.storage.files import LedgerFiles
from ariane.dledger.storage.log import LedgerLog
from ariane.dledger.storage.members_file import Stored
from ariane.dledger.storage.term_entry import term_entry
from ariane.dledger.writer import LedgerWriter
from ariane.env import Env
from ariane.protocol.command import Command
from ariane.raft import (
    AppendEntries,
    Entry,
    HardState,
    Heartbeat,
    Membership,
    MembershipRefused,
    Message,
    Node,
    NotLeader,
    ResetLog,
    Role,
    RoleChange,
    SafetyViolation,
)
from ariane.remoting import Client, Connection, Server, parse_address
from ariane.store import MessageStore, PutStatus

log = logging.getLogger("ariane.dledger")

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_RETRY: Final = 0.5  # seconds between checks of a failed disk
_FOLLOW: Final = 0.2  # seconds between checks whether a learner has caught up
_PREFER: Final = 1.0  # seconds between checks for a preferred leader
_RESIGN: Final = 1.0  # seconds between checks whether a leader's store takes messages
_NEARLY_ALL: Final = 1000  # entries that a preferred leader may lack
_STOP: Final = 3.0  # seconds allowed for the last entries to become durable


class MemberListener(Protocol):
    """The listener for changes of the role."""

    def leads(self, term: int) -> None:
        """This member leads, and everything committed before is in the queues."""
        ...

    def follows(self, term: int, leader: str | None) -> None:
        """This member is not the leader, or not ready yet; messages are already refused."""
        ...


class Member:
    """One member of a group. The store must be open before `start`, and is closed after `stop`."""

    def __init__(
        self, options: MemberOptions, files: LedgerFiles, store: MessageStore, env: Env, listener: MemberListener
    ) -> None:
        self.options = options
        self._first_membership = Membership(frozenset(options.peers), addresses=tuple(sorted(options.peers.items())))
        self.serving = False
        """Whether this member leads and accepts messages."""
        self.broker_address = ""
        """The address of this member's broker, announced to the other members."""
        self._files = files
        self._store = store
        self._env = env
        self._listener = listener
        self._accepts = False  # whether messages are accepted, if the store is writable
        self._node: Node | None = None
        self._working = False
        self._frozen = ""  # why this member is stopped: a disk failed, or the group's messages contradict each other
        self._begin_again = False  # a write has failed half-way: core and files differ
        self._incoming: Records = {}
        self._writer = LedgerWriter(files, store, self, options.durable_ack)
        self._appends = PendingAppends(env.clock, options.commit_timeout_ms)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0  # the deadline for which it was set
        self._work_due = False
        self._tasks: list[asyncio.Task[None]] = []
        self._checkpoint: asyncio.Task[None] | None = None
        self._mixed = False
        self._client = Client(clock=env.clock, on_close=self._closed, name="dledger-out")
        self.peers = PeerTable(
            options.id,
            lambda id, address: Peer(id, address, self._client, env.clock, self.metadata, self._identified),
        )
        self._outside = ""
        self._members_seen: tuple[int, bool, bool] | None = None  # changes with the configuration
        self._was_member = False
        self._changing: Membership | None = None
        self._changes = MembershipChanges(self)
        self.scrub = Scrub(self, env)
        requests = ApacheRequests(self)
        self._apache = ApacheSender(self, requests.answer)
        self._server = Server(
            {
                RAFT_CODE: self._receive,
                CHANGE_MEMBERS: self._changes.handle,
                ENTRY_CODE: self.scrub.handle,
                **requests.handlers,
            },
            clock=env.clock,
            gates=() if options.accepts is None else (HostGate(options.accepts),),
            name="dledger",
            idle_timeout=120,
        )
        self._introductions = Introductions(
            options.id, self._first_membership, lambda: self.plain, lambda: files.beginning
        )
        self._patient_until = 0.0

    # -- start and stop ---------------------------------------------------------------------------------------------

    async def start(self, bind: str = "") -> None:
        """Listen, connect, and join the group. ListenFailed when the port of this member is taken."""
        _, port = parse_address(self.options.peers[self.options.id])
        ledger = self._files.log
        ledger.appended = self._appended
        ledger.dropped = self._dropped
        ledger.show(ledger.end_of(ledger.committed_index))
        self._store.flusher.last_unit = lambda: -1  # entries have checksums: no durable end needs to be recorded
        self._store.when_replicated = self._when_replicated
        self._store.health.accepts_messages(False)
        self._listener.follows(0, None)
        self._patient_until = self._env.clock.monotonic() + self.options.gather_ms / 1000
        await self._server.start(bind, port)
        self.peers.follow([self.membership])
        self.peers.start()
        hard_state = self._files.hard_state()
        if hard_state is not None:
            self._begin(hard_state)
        elif not self.peers:
            self._begin(HardState())
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(work)
            for work in (
                self._checkpoints(),
                self._appends.expire(),
                self._prefer(),
                self._resign(),
                self._follow_changes(),
                self.scrub.run(),
            )
        ]

    async def stop(self) -> None:
        """Stop taking part, make the log durable and store a checkpoint."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._checkpoint is not None:
            await asyncio.gather(self._checkpoint, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        self._lose("this member stops")
        await self._server.stop()
        await self.peers.stop()
        await self._client.close()
        self._writer.stop()
        node, self._node = self._node, None
        if node is None:
            return
        ledger = self._files.log
        synced: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._store.flusher.wait(ledger.stored, lambda ok: None if synced.done() else synced.set_result(ok))
        durable = False
        try:
            durable = await asyncio.wait_for(synced, _STOP)
        except TimeoutError:
            log.warning("the last entries are not durable yet; the next start checks them")
        ledger.index.sync_job()()
        end = ledger.last_index if durable else node.log.persisted_index
        self._files.checkpoint_job(end, min(end, node.log.commit_index))()
        ledger.index.close()

    def _begin(self, hard_state: HardState) -> None:
        options = self.options.raft(mixed=self._mixed)
        random = self._env.random.random
        raft_log = self._files.raft_log(self._first_membership, options.cached_entries)
        known = [stored.membership for stored in self._files.members.stored] or [self._first_membership]
        self._was_member = any(self.options.id in membership.members for membership in known)
        if (now := raft_log.membership).addresses != self._first_membership.addresses:
            log.warning("the stored configuration counts, not dLegerPeers: %s", Members.of(now))
        self._node = Node(self.options.id, raft_log, hard_state, options, random, self._now())
        if hard_state.abstaining:
            log.warning("files of this member are lost: it does not vote until it has caught up with its group")
        self._work()

    def _now(self) -> int:
        return int(self._env.clock.monotonic() * 1000)

    # -- what others see -----------------------------------------------------------------------------------------------

    @property
    def node(self) -> Node | None:
        """The core; None until it is known whether the group has run before."""
        return self._node

    @property
    def ledger(self) -> LedgerLog:
        """The log of this member."""
        return self._files.log

    @property
    def membership(self) -> Membership:
        """The members of the group, as far as this one knows."""
        if self._node is not None:
            return self._node.log.membership
        stored = self._files.members.stored
        return stored[-1].membership if stored else self._first_membership

    @property
    def leader(self) -> str | None:
        """The leader, as far as it is known."""
        return self._node.leader if self._node is not None else None

    @property
    def leader_broker(self) -> str | None:
        """The address of the leader's broker; empty while it is not known, None when the leader is Apache's."""
        if self.leader_is_apache:
            return None
        return self._introductions.broker_of(self.leader or "")

    @property
    def leader_is_apache(self) -> bool:
        """Whether the leader is known to be a member of Apache's."""
        peer = self.peers.get(self.leader or "")
        return peer is not None and peer.kind is PeerKind.APACHE

    @property
    def term(self) -> int:
        """The term of this member."""
        return self._node.hard_state.term if self._node is not None else 0

    @property
    def frozen(self) -> str:
        """Why this member does not take part in the group; empty when it does."""
        return self._frozen

    @property
    def outside(self) -> str:
        """Why this member does not belong to its group; empty when it does."""
        return self._outside

    @property
    def waiting(self) -> str:
        """Why this member does not begin its work; empty when it has begun, or has nothing to complain about."""
        return self._introductions.waiting if self._node is None else ""

    @property
    def abstaining(self) -> str:
        """Why this member does not vote; empty when it does."""
        if self._node is None or not self._node.hard_state.abstaining:
            return ""
        return "files of this member were lost: it does not vote until it has the log of a leader"

    @property
    def plain(self) -> str:
        """The fingerprint of the plain commitlog below the ledger; empty when there is none."""
        plain = self._files.log.plain
        return plain.fingerprint if plain is not None else ""

    def metadata(self, to: str) -> Metadata:
        """The status that this member reports of itself."""
        node, ledger, membership = self._node, self._files.log, self.membership
        return Metadata(
            group=self.options.group,
            localId=self.options.id,
            remoteId=to,
            leaderId=self.leader,
            term=self.term,
            peers={self.options.id: self.options.peers[self.options.id], **dict(membership.addresses)},
            ariane=ArianeStatus(
                term=self.term,
                endIndex=ledger.last_index,
                committedIndex=node.log.commit_index if node is not None else ledger.committed_index,
                role=node.role.value if node is not None else "new",
                new=node is None or (node.hard_state == HardState() and ledger.last_index < 0),
                serving=self.serving,
                broker=self.broker_address,
                learners=sorted(membership.learners),
                membersIndex=node.log.membership_index if node is not None else -1,
                membersCommitted=node is None or node.log.membership_index <= node.log.commit_index,
                outside=self.outside or self.waiting,
                plain=self.plain,
                beginning=self._files.beginning,
                writable=self._store.health.writable and not self._frozen,
                damaged=len(self.scrub.damaged),
                repaired=self.scrub.repaired,
            ),
        )

    @property
    def can_append(self) -> bool:
        """Whether this member leads, has every committed entry, and may append entries."""
        return self.serving and not self._frozen and self._node is not None and not self._node.transferring

    def when_committed(self, end: int, done: Committed) -> None:
        """Call `done` when the log is committed up to `end`: durable on a majority; or when the leadership is lost."""
        if end <= self._files.log.end:
            done(PutStatus.OK)
        elif not self.serving:
            done(PutStatus.UNKNOWN_ERROR)
        else:
            self._appends.add(end, done)

    def _when_replicated(self, end: int, done: Callable[[bool], None]) -> None:
        self.when_committed(end, lambda status: done(status is PutStatus.OK))

    def accept(self, term: int) -> None:
        """Accept messages as the leader of `term`, unless that term has ended."""
        node = self._node
        if self.serving and not self._frozen and node is not None and node.hard_state.term == term:
            self._accepts = True
            self._store.health.accepts_messages(True)

    def transfer(self, member: str) -> None:
        """Transfer the leadership; messages are refused from now on. RaftError when that is not possible."""
        assert self._node is not None
        self._node.transfer(member)
        accepted = self._accepts
        if member != self.options.id:
            self._store.health.accepts_messages(False)
        self._work()
        if accepted:  # the core gives up after an election time-out
            patience = 1.5 * self.options.raft(mixed=self._mixed).election_timeout / 1000
            asyncio.get_running_loop().call_later(patience, self.accept, self._node.hard_state.term)

    def change_members(self, membership: Membership) -> int:
        """Change the group; return the index of the entry. RaftError when that is not possible, or not now."""
        node, ledger = self._node, self._files.log
        if node is None or self._frozen:
            raise NotLeader(None)
        ledger.commit()
        node.tick(self._now())
        node.check_membership(membership)
        index = ledger.last_index + 1
        self._changing = membership
        try:
            self._files.members.put(Stored(index, node.hard_state.term, membership))
            configuration_entry(ledger, membership, self._env.clock.now_ms())
        except OSError as error:
            raise MembershipRefused(f"the change could not be stored: {error}") from None
        finally:
            self._changing = None
        log.info("entry %d changes the group: %s", index, Members.of(membership))
        return index

    # -- inputs --------------------------------------------------------------------------------------------------------

    def take(self, message: Message, records: Records) -> None:
        """Pass a message of another member to the core."""
        node = self._node
        if node is None or self._frozen or not self._introductions.knows(message.source):
            return
        if self._introductions.differs(message.source):
            if isinstance(message, (AppendEntries, Heartbeat, ResetLog)):
                self.freeze(self._introductions.difference(message.source))
            return  # it must not lead this member
        if records and begins_elsewhere(self._files.log, message):
            self.freeze(
                f"the ledger of {message.source} does not begin at {self._files.log.divide}, where the plain commitlog "
                f"of this member ends: {COPY}"
            )
            return
        if records and not fits(self._files.log, node, message, records):
            log.error(
                "%s has sent entries that do not fit into this log: mappedFileSizeCommitLog must be the same on all "
                "members, and only members may reach this port",
                message.source,
            )
            return
        self._incoming = records
        try:
            node.tick(self._now())
            node.step(message)
            self._work()
        except SafetyViolation as error:
            self.freeze(f"{error}")
        except ValueError as error:
            self.freeze(f"the entries of {message.source} could not be written: {error}")
        except OSError as error:
            self.fail_write(f"the entries of {message.source} could not be written", error)
        finally:
            self._incoming = {}

    def _receive(self, _: Connection, request: Command) -> Command | None:
        message, records = decode(request.body, self.options.group, self.options.id, self.peers)
        peer = self.peers[message.source]
        if peer.kind is not PeerKind.ARIANE:
            peer.tell(PeerKind.ARIANE)
            self._choose_mode()
        self.take(message, records)
        return None

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        node = self._node
        if node is None or self._frozen:
            return
        node.tick(self._now())
        self._work()

    def _appended(self, blocks: list[tuple[int, int]]) -> None:
        """The store has appended entries of this leader."""
        node = self._node
        assert node is not None, "only a leader appends"
        if self._changing is not None:
            (position, size), membership = blocks[0], self._changing
            first = node.change_membership(membership, position, size)
        else:
            first = node.propose(blocks)
        assert first + len(blocks) - 1 == self._files.log.last_index, "the log and its files disagree"
        if not self._working and not self._work_due:
            self._work_due = True  # once for all that is appended until then
            asyncio.get_running_loop().call_soon(self._work_now)

    def _work_now(self) -> None:
        self._work_due = False
        self._work()

    def _dropped(self, first_index: int) -> None:
        """Retention has deleted the oldest file."""
        if self._node is not None:
            first = self._files.entry(first_index)
            self._node.compact(self._node.log.start_at(first_index + 1, first.position + first.size))

    def _identified(self, peer: Peer, answer: Metadata) -> None:
        """A peer was identified."""
        self._introductions.add(peer.id, answer)
        self._choose_mode()
        self._begin_if_known_how()

    def hear_of(self, told: Metadata) -> None:
        """A server that may not be a member has introduced itself."""
        self.peers.hear_of(told)

    def _begin_if_known_how(self) -> None:
        if self._node is not None:
            return
        patient = self._env.clock.monotonic() < self._patient_until
        beginning = self._introductions.decide(patient=patient)
        if beginning is None:
            return
        if beginning.membership is not None:
            self._files.members.begin(beginning.membership)
        self._begin(beginning.hard_state)

    def found_apache(self, peer: Peer) -> None:
        """A peer has sent a request of Apache's."""
        peer.tell(PeerKind.APACHE)
        self._introductions.add_apache(peer.id)
        self._choose_mode()
        self._begin_if_known_how()

    def _choose_mode(self) -> None:
        mixed = any(peer.kind is PeerKind.APACHE for peer in self.peers.values())
        if mixed == self._mixed:
            return
        self._mixed = mixed
        if mixed:
            log.warning(
                "the group has members of Apache's: elections take longer, and what they acknowledge is not durable"
            )
        if self._node is not None:
            self._node.change_options(self.options.raft(mixed=mixed))
            self._work()

    def _closed(self, connection: Connection) -> None:
        for peer in self.peers.values():
            peer.closed(connection)

    # -- the core's work -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Do the core's work until none is left."""
        node = self._node
        if node is None or self._working or self._frozen:
            return
        self._working = True
        try:
            while ready := node.ready():
                if ready.hard_state is not None:
                    self._writer.store_vote(ready.hard_state)
                if ready.write is not None:
                    self._writer.write(ready.write, self._incoming)
                if ready.sync:
                    self._writer.sync()
                self._send(ready.messages)
                if ready.role is not None:
                    self._role_changed(ready.role)
                if ready.commit_index is not None:
                    self._committed(ready.commit_index)
        finally:
            self._working = False
        self._follow_members()
        deadline = node.deadline
        if self._timer is not None:
            if self._timer_at <= deadline:
                return  # most deadlines move with each message: the timer fires early, and is set again then
            self._timer.cancel()
        delay = max(deadline - self._now(), 0) / 1000
        self._timer_at = deadline
        self._timer = asyncio.get_running_loop().call_later(delay + 0.001, self._tick)

    def _send(self, messages: Sequence[Message]) -> None:
        """Send messages; the same one to several members is encoded once."""
        encoded: Message | None = None
        body: bytes | None = None
        for message in messages:
            peer = self.peers.get(message.target)
            if peer is None:
                continue
            if peer.kind is PeerKind.APACHE:
                self._apache.send(peer, message)
            elif peer.ready and peer.kind is PeerKind.ARIANE:
                if encoded is None or type(encoded) is not type(message) or encoded[2:] != message[2:]:
                    encoded, body = message, encode(self.options.group, message, self._files.records)
                if body is not None:
                    peer.oneway(RAFT_CODE, body)

    def record(self, entry: Entry) -> bytes | None:
        """The bytes of an entry; None when it was deleted."""
        return self._files.records([entry])

    def persisted(self, number: int) -> None:
        """The log writes up to this number are durable."""
        if self._node is not None:
            self._node.persisted(number)
            self._work()

    def vote_stored(self, state: HardState) -> None:
        """Term and vote are durable."""
        if self._node is not None:
            self._node.vote_stored(state)
            self._work()

    def _committed(self, index: int) -> None:
        """Make committed entries readable, dispatch them, and answer the appends that wait for them."""
        ledger = self._files.log
        ledger.show(ledger.end_of(index))
        self._store.dispatch_now()
        self._appends.committed(ledger.end)
        self._serve_when_ready()

    # -- roles ---------------------------------------------------------------------------------------------------------

    def _role_changed(self, change: RoleChange) -> None:
        node = self._node
        assert node is not None
        if change.role is not Role.LEADER:
            self._lose(f"term {change.term} began")
            self._listener.follows(change.term, change.leader)
            return
        log.info("%s leads term %d", self.options.id, change.term)
        ledger = self._files.log
        assert ledger.last_index == node.log.last_index
        ledger.entries.term = change.term
        try:
            term_entry(ledger, change.term, self._env.clock.now_ms())
        except OSError as error:
            self.freeze(f"no room for the first entry of a term: {error}", "room")
        self._serve_when_ready()

    def _serve_when_ready(self) -> None:
        """Start to serve once every entry committed by earlier leaders is known and dispatched."""
        node = self._node
        if node is None or self.serving or node.role is not Role.LEADER or not node.term_committed:
            return
        if self._store.dispatch_behind:
            log.error("%d committed bytes are not dispatched: %s", self._store.dispatch_behind, self._store.health.text)
            asyncio.get_running_loop().call_later(_RETRY, self._serve_when_ready)
            return
        for queue in self._store.table:
            queue.next_offset = queue.max_offset
        self.serving = True
        self._listener.leads(node.hard_state.term)

    def _lose(self, reason: str) -> None:
        """Accept no more messages, and answer waiting appends with an unknown outcome."""
        self._store.health.accepts_messages(False)
        self.serving = self._accepts = False
        self._appends.lose(reason)

    def freeze(self, reason: str, until: str = "") -> None:
        """Stop taking part: others elect a leader. `until` names the store's problem that must be cleared first."""
        if self._frozen:
            return
        self._frozen = reason
        log.critical("this member leaves its group's work: %s", reason)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._lose(reason)
        self._listener.follows(self.term, None)
        if until:
            asyncio.get_running_loop().call_later(_RETRY, self._thaw, until)

    def fail_write(self, what: str, error: OSError) -> None:
        """A write has failed half-way. On a full disk this member waits for room; other errors need an operator."""
        if error.errno not in _FULL:
            self.freeze(f"{what}: {error}")
            return
        self._begin_again = True
        self._store.health.fail("room", f"no room for the next entries: {error}")
        self.freeze(f"{what}: {error}", "room")

    def _thaw(self, until: str) -> None:
        if self._node is None:
            return
        if until in self._store.health.reasons or (self._begin_again and self._writer.storing_vote):
            asyncio.get_running_loop().call_later(_RETRY, self._thaw, until)
            return
        log.warning("this member takes part again")
        self._frozen = ""
        if self._begin_again:
            self._begin_again = False
            self._begin_with_the_files()
            return
        self._writer.sync()
        self._tick()

    def _begin_with_the_files(self) -> None:
        """Make a core of what is in the files, as a restart does: the old one believes in writes that have failed."""
        node, ledger, hard_state = self._node, self._files.log, self._files.hard_state()
        assert node is not None
        ledger.commit()
        ledger.index.flush()
        ledger.committed_index = min(node.log.commit_index, ledger.last_index)
        self._writer.forget()
        self._begin(HardState(abstaining=True) if hard_state is None else hard_state)

    # -- upkeep --------------------------------------------------------------------------------------------------------

    def _follow_members(self) -> None:
        """Connect with the members of the configuration, and say when this one does not belong to it any more."""
        node = self._node
        assert node is not None
        index, removed = node.log.membership_index, node.removed
        seen = (index, index <= node.log.commit_index, removed)
        if seen == self._members_seen:
            return
        self._members_seen = seen
        self.peers.follow(node.log.memberships_in_doubt)
        self._choose_mode()
        self._was_member = self._was_member or not removed
        outside = ""
        if removed and self._was_member:
            outside = "it was removed from the group: stop it, or add it again"
        elif removed:
            outside = "it is not a member yet: add it with `ariane dledger add`"
        if outside and outside != self._outside:
            log.warning("%s does not vote and gets no messages: %s", self.options.id, outside)
        elif self._outside and not outside:
            log.info("%s belongs to the group", self.options.id)
        self._outside = outside

    async def _follow_changes(self) -> None:
        while True:
            await self._env.clock.sleep(_FOLLOW)
            self.peers.forget_unreachable()
            self._begin_if_known_how()
            if self.waiting:
                await asyncio.gather(*(peer.identify() for peer in self.peers.values() if peer.ready))
            if self.serving and not self._frozen:
                self._changes.promote()

    async def _prefer(self) -> None:
        """Transfer the leadership to a preferred member that has nearly all entries."""
        wanted = list(self.options.preferred_leaders)
        while wanted and self.options.id not in wanted:
            await self._env.clock.sleep(_PREFER)
            node = self._node
            if not self.serving or node is None or self._frozen:
                continue
            for id in wanted:
                progress = node.progress(id)
                if progress is None or progress[0] != "replicate" or id not in self.peers or not self.peers[id].ready:
                    continue
                if node.log.last_index - progress[1] < _NEARLY_ALL:
                    log.info("handing the leadership over to %s, which is preferred", id)
                    self.transfer(id)
                    break

    async def _resign(self) -> None:
        """Transfer the leadership while the store takes no messages, for a full disk say, to a member whose does."""
        while True:
            await self._env.clock.sleep(_RESIGN)
            for id, peer in list(self.peers.items()):
                if not self._hinders or not peer.ready or not await peer.identify():
                    continue
                node = self._node
                voters = node.log.membership.voters if node is not None else ()
                if self._hinders and id in voters and self._introductions.is_writable(id):
                    log.error("%s is to lead: the store here takes no messages: %s", id, self._store.health.text)
                    self.transfer(id)
                    break

    @property
    def _hinders(self) -> bool:
        """Whether this member leads, and cannot write."""
        return self.can_append and not self._store.health.writable

    async def _checkpoints(self) -> None:
        noted = (-1, -1)
        while True:
            await self._env.clock.sleep(self.options.checkpoint_ms / 1000)
            node = self._node
            if node is None or self._frozen:
                continue
            end = node.log.persisted_index
            state = (end, min(end, node.log.commit_index))
            if state != noted:
                sync_index, save = self._files.log.index.sync_job(), self._files.checkpoint_job(*state)

                def job(first: Callable[[], None] = sync_index, second: Callable[[], None] = save) -> None:
                    first()
                    second()

                self._checkpoint = asyncio.get_running_loop().create_task(asyncio.to_thread(job))
                try:
                    await asyncio.shield(self._checkpoint)  # a thread does not end when its task is cancelled
                    noted = state
                except OSError as error:
                    log.error("the checkpoint of the ledger could not be written: %s", error)
