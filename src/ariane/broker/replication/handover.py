"""Moves the master role from one broker to another: promotion of a slave, return of the old master."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ariane.broker.registration import Registration
from ariane.broker.replication.metadata import MetadataCopy
from ariane.broker.replication.peers import Peers, PeerState, free_id, ha_address
from ariane.broker.replication.role_record import RoleRecord
from ariane.broker.role import MASTER_ID, Role, RoleKind
from ariane.broker.tables.offsets import OffsetTable, split_key
from ariane.broker.tables.topics import TopicTable
from ariane.errors import ArianeError, ResponseError
from ariane.ha import Epochs, SlaveState, goes_before
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.ha import EpochEntry
from ariane.protocol.headers import PromoteBrokerRequest, PromoteBrokerResponse
from ariane.remoting import Connection
from ariane.store import MessageStore

log = logging.getLogger("ariane.broker.replication")


class Leading:
    """The first part to run on a new master: prepares the log for this broker's own appends."""

    def __init__(
        self,
        role: Role,
        epochs: Epochs,
        store: MessageStore,
        topics: TopicTable,
        offsets: OffsetTable,
        metadata: MetadataCopy,
    ) -> None:
        self._role = role
        self._epochs = epochs
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._metadata = metadata

    async def start(self) -> None:
        """Finish the copied log, start an epoch or a new run of it; a promotion caps offsets at the queue ends."""
        store, epochs = self._store, self._epochs
        store.take_over()
        await self._metadata.forget()
        promoted = self._role.epoch > epochs.current
        if promoted and (moved := self._offsets.limit_to(store.max_offset)):
            log.warning("%d committed offsets were beyond the end of their queue and are moved back to it", moved)
        if promoted:
            self._find_topics()
        entry = await asyncio.to_thread(epochs.begin, store.log_max, promote=promoted)
        self._role.epoch = entry.epoch

    def _find_topics(self) -> None:
        """Create topics for messages whose topic configuration was not copied from the old master in time."""
        for topic in self._store.table.topics() - self._topics.names():
            queues = max(queue.queue_id for queue in self._store.table.of_topic(topic)) + 1
            try:
                self._topics.ensure(topic, queues)
            except ArianeError as error:
                log.error("the messages of topic %s cannot be read: %s", topic, error)

    async def stop(self) -> None:
        """Nothing to stop."""


class Handover:
    """Promotes this broker, and makes it a slave when another one was promoted.

    Two brokers cannot distinguish a dead peer from a network partition, so there is no election: an operator promotes.
    """

    def __init__(
        self,
        role: Role,
        record: RoleRecord,
        epochs: Epochs,
        peers: Peers,
        store: MessageStore,
        offsets: OffsetTable,
        registration: Registration,
        *,
        address: Callable[[], str],
        master_address: Callable[[], str | None],
        epochs_of: Callable[[str], Awaitable[tuple[EpochEntry, ...]]],
        copying: Callable[[], SlaveState | None],
        elected: bool,
    ) -> None:
        self._role = role
        self._record = record
        self._epochs = epochs
        self._peers = peers
        self._store = store
        self._offsets = offsets
        self._address = address
        self._master_address = master_address
        self._registration = registration
        self._elected = elected
        self._epochs_of = epochs_of
        self._copying = copying
        self._following: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()  # held while the role is decided and changed

    # A master that returns.

    async def before_start(self) -> None:
        """Before a master serves: follow a newer master, or take the offsets committed on slaves during its absence."""
        self._record.load()
        role = self._role
        if self._record.role is RoleKind.SLAVE:
            await role.become_slave(self._record.broker_id, self._epochs.current)
        else:
            await role.become_master(self._epochs.current, self._record.role)
        if role.is_slave:
            return
        others = await self._others()
        for address in others.pop(MASTER_ID, set()):
            if await self._follow_if_newer(address):
                return
        for address in (address for addresses in others.values() for address in addresses):
            try:
                table = await self._peers.committed_at(address)
            except ArianeError as error:
                log.info("the slave %s does not tell the offsets committed there: %s", address, error)
                continue
            for key, queues in table.offset_table.items():
                for queue_id, offset in queues.items():
                    # The slave may have read messages that a power cut took from this log: others take their places.
                    end = max(self._store.max_offset(split_key(key)[0], queue_id), 0)
                    self._offsets.raise_to(key, queue_id, min(offset, end))

    def newer_master(self, epoch: int, address: str) -> None:
        """Another broker is reported as master of a newer epoch: confirm that with it, then follow it."""
        if self._elected or self._role.is_slave or epoch < self._role.epoch:
            return
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().create_task(self._ask_then_follow(address))

    async def look_for_newer(self) -> None:
        """Ask the master that the name servers list, if that is another broker; Apache's do not compare epochs."""
        if self._elected or self._role.is_slave:
            return
        for address in (await self._others()).get(MASTER_ID, set()):
            await self._follow_if_newer(address)

    async def stop(self) -> None:
        """Stop following a newer master, and telling others of a promotion."""
        tasks = [task for task in (self._following, self._telling) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_then_follow(self, address: str) -> None:
        try:
            await self._follow_if_newer(address)
        except Exception:
            log.exception("%s is a newer master, and this broker cannot follow it yet", address)

    async def _follow_if_newer(self, address: str) -> bool:
        role = self._role
        try:
            state = await self._peers.state(address)
        except ArianeError as error:
            log.info("%s, which is registered as master, does not answer: %s", address, error)
            return False
        if not state.is_master or state.epoch < max(role.epoch, self._epochs.current):
            return False
        if not self._record.shares_log and self._store.log_max > 0:
            log.error(
                "%s claims to be the master of this broker's name, of epoch %d (here %d). No other broker has a copy "
                "of this log, so that one is not followed: give one of them another brokerName",
                address,
                state.epoch,
                role.epoch,
            )
            return False
        if self._store.log_max > 0:
            theirs = await self._claim(address, state)
            if not goes_before(theirs, self._epochs.entries):
                if goes_before(self._epochs.entries, theirs):  # both were promoted, and the other one must follow
                    self._registration.soon()  # name servers show the last of equal masters: it must find this one
                    await self._registration.current()
                    await self._peers.tell_promoted(address, role.epoch, self._store.log_max)
                elif theirs[-1:] != self._epochs.entries[-1:] and state.epoch > role.epoch:
                    log.error("%s claims to be the master of this broker's name with another log", address)
                return False
        broker_id = free_id(await self._others())
        async with self._changing:
            if role.is_slave or state.epoch < role.epoch:  # another request was quicker
                return role.is_slave
            log.error(
                "%s was promoted (epoch %d, here %d): this broker refuses writes and follows it as slave %d",
                address,
                state.epoch,
                role.epoch,
                broker_id,
            )
            self._record.save(RoleKind.SLAVE, broker_id)
            await role.become_slave(broker_id, role.epoch)
        return True

    async def _claim(self, address: str, state: PeerState) -> tuple[EpochEntry, ...]:
        """The epochs that another master proves to have; anyone may register with a name server and name an epoch."""
        for port in (
            state.ha_address,
            ha_address(address),
        ):  # the second by RocketMQ's rule: the first may be behind NAT
            try:
                if port and (theirs := await self._epochs_of(port)):
                    return theirs
            except ArianeError as error:
                log.error("%s claims to be the master of this broker's name and does not prove it: %s", address, error)
        return ()

    async def _others(self) -> dict[int, set[str]]:
        own = self._address()
        found = await self._peers.same_name()
        return {broker_id: others for broker_id, addresses in found.items() if (others := addresses - {own})}

    # Promotion.

    async def promote(self, _: Connection, request: Command) -> Command:
        """PROMOTE_BROKER: make this slave the master of a new epoch. Answers at once when it is the master already."""
        header = PromoteBrokerRequest.parse(request.fields)
        role = self._role
        if header.broker_name != self._peers.name:
            remark = f"this broker is {self._peers.name}, not {header.broker_name}: check the address"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        if self._elected:
            remark = "a DLedger group elects its master itself; preferredLeaderId names one that it shall have"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        async with self._changing:
            if role.is_slave:
                known = await self._known()
                others = await self._states(known)
                if not header.force:
                    self._check_safe(others)
                epoch = max([self._epochs.current, *(state.epoch for state in others.values())]) + 1
                await self._promote(epoch, RoleKind.SYNC_MASTER if header.sync else RoleKind.ASYNC_MASTER)
                await self._registration.current()
                self._telling = asyncio.get_running_loop().create_task(self._tell(known))
        return request.reply(0, PromoteBrokerResponse(role.epoch, self._store.log_max).fields())

    async def _promote(self, epoch: int, kind: RoleKind) -> None:
        role, broker_id, before = self._role, self._role.broker_id, self._role.epoch
        try:
            await role.become_master(epoch, kind)
            self._record.shares_log = True
            self._record.save(kind, MASTER_ID)
        except Exception as error:
            log.exception("the promotion failed")
            await role.become_slave(broker_id, before)
            raise ResponseError(
                ResponseCode.SYSTEM_ERROR, f"not promoted, the broker stays a slave: {error}; see its log"
            ) from None

    async def _tell(self, addresses: set[str]) -> None:
        """Tell the other brokers; one that hangs reads it when it goes on, before it takes many more messages."""
        epoch, end = self._role.epoch, self._store.log_max
        await asyncio.gather(*(self._peers.tell_promoted(address, epoch, end) for address in addresses))

    async def _known(self) -> set[str]:
        """The addresses of the other brokers of the name."""
        addresses = {address for found in (await self._others()).values() for address in found}
        if master := self._master_address():
            addresses.add(master)
        return addresses

    async def _states(self, addresses: set[str]) -> dict[str, PeerState]:
        """The states of those that answer."""
        states: dict[str, PeerState] = {}
        for address in addresses:
            try:
                states[address] = await self._peers.state(address)
            except ArianeError as error:
                log.info("%s does not answer before the promotion: %s", address, error)
        return states

    def _check_safe(self, others: dict[str, PeerState]) -> None:
        """Refuse a promotion while the master is alive, or of a slave that is known to lack messages."""
        end = self._store.log_max
        for address, state in others.items():
            if state.is_master:
                remark = f"the master {address} still answers: stop it first, or promote with --force"
                raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
            if state.log_max > end:
                remark = (
                    f"the slave {address} has more of the log ({state.log_max} bytes, here {end}): promote that one, "
                    "or this one with --force"
                )
                raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        copying = self._copying()
        begun = self._epochs.entries[-1].start if self._epochs.entries else -1
        wanted = max(begun, -1 if copying is None else copying.catch_up_to)
        if end < wanted:
            remark = (
                f"this slave was still copying: its master's log went to {wanted} (here {end}): promote another one, "
                "or this one with --force"
            )
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        if not end and wanted < 0:
            remark = "this slave has no message and has found no master since its start: promote it with --force"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)

    async def promoted(self, _: Connection, request: Command) -> Command:
        """BROKER_PROMOTED: a peer was promoted. A master asks it; a slave asks the name servers for its address."""
        header = PromoteBrokerResponse.parse(request.fields)
        if self._role.is_slave:
            self._registration.soon()
        else:
            for address in (await self._others()).get(MASTER_ID, set()):
                self.newer_master(header.broker_epoch, address)
        return request.reply()
