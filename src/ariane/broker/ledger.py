"""The broker as a member of a DLedger group: its role follows the group's elections, its sends wait for a majority."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from ariane.broker.config import BrokerOptions
from ariane.broker.config.ha_options import ha_options
from ariane.broker.replication.replicated_tables import ReplicatedTables
from ariane.broker.role import Role, RoleKind
from ariane.broker.send.acknowledge import Done
from ariane.broker.send.forward import Forwarding
from ariane.broker.tables.groups import GroupTable
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.tables.persistence import Persistence
from ariane.broker.tables.topics import TopicTable
from ariane.dledger.member import Member
from ariane.dledger.options import MemberOptions, parse_peers
from ariane.dledger.peers.wire import METADATA, Metadata
from ariane.dledger.storage.files import LedgerFiles, ledger_folder
from ariane.env import Env
from ariane.errors import ArianeError
from ariane.protocol.bodies import ConsumerOffsetTable, SubscriptionGroupTable, TopicConfigTable
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.remoting import Client
from ariane.store import MessageStore, PutResult
from ariane.store.layout import log_names
from ariane.store.results import StoreDamaged

log = logging.getLogger("ariane.broker")

RETRY: Final = 1.0  # seconds until a change of the role that failed is tried again
ASK_TIMEOUT: Final = 1.0  # seconds for another member to send its tables


def ledger_files(options: BrokerOptions, env: Env) -> LedgerFiles:
    """The files of this broker's ledger, which continues the commitlog of a broker without DLedger if there is one."""
    folder = ledger_folder(Path(options.store_path_root_dir), options.dledger_self_id)
    return LedgerFiles(folder, env.files, Path(options.store_path_commit_log))


def refuse_ledger(options: BrokerOptions, env: Env) -> None:
    """Raise StoreDamaged when a broker without DLedger would start on the folder of a member, whose log it ignores."""
    root = Path(options.store_path_root_dir)
    for name in env.files.list(root):
        if name.startswith("dledger-") and log_names(env.files, root / name / "data"):
            raise StoreDamaged(
                f"{root / name} holds the messages of a DLedger member, which a broker without DLedger does not serve: "
                "set enableDLegerCommitLog=true, or move that folder away to do without them; nothing was changed"
            )


def slave_id(options: BrokerOptions) -> int:
    """The brokerId of a follower, as in Apache's broker: the number in its name plus one."""
    return int(options.dledger_self_id[1:]) + 1


class LedgerGroup:
    """This broker's membership in its group. The broker's role follows the group's elections, one change at a time.

    Topics, groups and offsets are in the log (`tables`). After a leader of Apache's, which writes none there, a new
    leader first merges those of the other members.
    """

    def __init__(
        self,
        options: BrokerOptions,
        files: LedgerFiles,
        store: MessageStore,
        role: Role,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        persistence: Persistence,
        client: Client,
        forwards: Client,
        env: Env,
    ) -> None:
        """`forwards` sends requests of clients to the leader as they are, without a signature of this broker."""
        copying = ha_options(options)
        self.member = Member(
            MemberOptions(
                group=options.dledger_group,
                id=options.dledger_self_id,
                peers=parse_peers(options.dledger_peers),
                heartbeat_ms=options.dledger_heartbeat_ms,
                election_ms=options.dledger_election_ms,
                durable_ack=options.dledger_durable_ack,
                scrub_rate=options.dledger_scrub_rate,
                preferred_leaders=tuple(id for id in options.preferred_leader_id.split(";") if id),
                accepts=copying.allows if copying.allowed else None,
            ),
            files,
            store,
            env,
            self,
        )
        self._bind = options.bind_address
        self._slave_id = slave_id(options)
        self._role = role
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._client = client
        self.tables = ReplicatedTables(self.member, store, role, topics, groups, offsets, persistence, env.clock)
        self.forwarding = Forwarding(
            forwards,
            env.clock,
            leader=lambda: self.member.leader_broker,
            accepts=lambda: store.health.accepts,
        )
        self._wanted: tuple[bool, int] = (False, 0)  # whether this member leads, and the term
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # What sends wait for.

    @property
    def enough(self) -> bool:
        """Whether sends are accepted: the store refuses them unless this member is the leader."""
        return True

    def wait(self, result: PutResult, done: Done) -> None:
        """Call `done` when a majority has stored a message durably, or when the outcome is unknown."""
        self.member.when_committed(result.end_offset, done)

    def status_rows(self) -> dict[str, str]:
        """The rows of this member for `mqadmin brokerStatus`."""
        member = self.member
        node, membership = member.node, member.membership
        rows = {
            "ledgerRole": node.role.value if node is not None else "new",
            "ledgerTerm": str(member.term),
            "ledgerLeader": member.leader or "",
            "ledgerVoters": " ".join(sorted(membership.voters)),
        }
        if membership.learners:
            rows["ledgerLearners"] = " ".join(sorted(membership.learners))
        scrub = member.scrub
        if scrub.found:
            rows["ledgerDamagedEntries"] = str(len(scrub.damaged))
            rows["ledgerRepairedEntries"] = str(scrub.repaired)
        if member.ledger.divide:
            rows["ledgerStart"] = str(member.ledger.divide)
        if problem := member.frozen or member.outside or member.waiting or member.abstaining:
            rows["ledgerProblem"] = problem
        return rows

    # Start and stop.

    async def start(self, address: str) -> None:
        """Join the group; `address` is the one advertised to clients."""
        self.member.broker_address = address
        self.forwarding.begin()
        await self.tables.start()
        self._task = asyncio.get_running_loop().create_task(self._follow_elections(), name="follow elections")
        await self.member.start(self._bind)

    async def stop(self) -> None:
        """Stop taking part in the group."""
        await self.member.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self.tables.stop()
        await self.forwarding.stop()

    # Elections.

    def leads(self, term: int) -> None:
        """This member leads and has every committed entry."""
        self._want(True, term)

    def follows(self, term: int, leader: str | None) -> None:
        """Another member leads, or none yet."""
        self.tables.follow()
        if self._role.is_master:
            self.forwarding.begin()
        self._want(False, term)

    def _want(self, leads: bool, term: int) -> None:
        self._wanted = (leads, term)
        self._changed.set()

    async def _follow_elections(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            leads, term = self._wanted
            try:
                if leads:
                    await self._take_over(term)
                elif self._role.is_master or self._role.epoch != term:
                    await self._role.become_slave(self._slave_id, term)
                    self.tables.settle()
            except Exception:
                # A leader that accepts nothing would keep its group from electing another one.
                log.exception("the change of the role failed; it is tried again in %g s", RETRY)
                asyncio.get_running_loop().call_later(RETRY, self._changed.set)

    async def _take_over(self, term: int) -> None:
        """Take the tables over, change the role, and accept messages if this member is still the leader."""
        native = self.tables.is_native()
        if not native:
            log.info("the log does not have all topics, groups and offsets: those of the other members are merged")
            await asyncio.gather(*(self._merge_from(id) for id in self.member.peers))
        if self._wanted != (True, term):
            return
        await self.tables.lead(term, native=native)
        if self._wanted != (True, term):
            return
        await self._role.become_master(term, RoleKind.SYNC_MASTER)
        self.member.accept(term)

    async def _merge_from(self, id: str) -> None:
        """Add missing topics and groups, and take higher offsets."""
        peer = self.member.peers[id]
        if not peer.ready:
            return
        try:
            metadata = Metadata.decode(await peer.request(METADATA, self.member.metadata(id).encode(), ASK_TIMEOUT))
            address = metadata.ariane.broker if metadata.ariane is not None else ""
            if not address:
                return
            offsets = ConsumerOffsetTable.decode(await self._ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET))
            topics = TopicConfigTable.decode(await self._ask(address, RequestCode.GET_ALL_TOPIC_CONFIG))
            groups = SubscriptionGroupTable.decode(
                await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            )
        except ArianeError as error:
            log.warning("%s did not tell what it knows of offsets and topics: %s", id, error)
            return
        for name, topic in topics.topic_config_table.items():
            if name not in self._topics:
                self._topics.update(topic)
        for name, group in groups.subscription_group_table.items():
            if name not in self._groups:
                self._groups.update(group)
        for key, queues in offsets.offset_table.items():
            for queue_id, offset in queues.items():
                self._offsets.raise_to(key, queue_id, offset)

    async def _ask(self, address: str, code: RequestCode) -> bytes:
        answer = await self._client.request(address, Command(code), ASK_TIMEOUT)
        return answer.body
