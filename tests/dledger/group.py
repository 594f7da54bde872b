"""A group of members in one process, over loopback, with stores in folders."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from ariane.dledger.member import Member
from ariane.dledger.options import MemberOptions
from ariane.dledger.storage.files import LedgerFiles, ledger_folder
from ariane.env import Env
from ariane.store import MessageStore, PutStatus, StoreOptions
from tests.peers import free_port
from tests.store.units import read_all, unit

WAIT = 120.0


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for a condition; time decides nothing but the patience."""
    async with asyncio.timeout(WAIT):
        while not condition():  # noqa: ASYNC110 (what is awaited is in other tasks)
            await asyncio.sleep(0.01)


class Running:
    """One member with its store."""

    def __init__(self, options: MemberOptions, root: Path, env: Env, file_size: int) -> None:
        self.root = root
        self.files = LedgerFiles(
            ledger_folder(root, options.id), env.files, root / "commitlog", index_file_units=1 << 12
        )
        store_options = StoreOptions(
            root=root,
            commitlog=self.files.folder / "data",
            commitlog_file_size=file_size,
            consumequeue_file_entries=1000,
            index_slots=100,
            index_entries=400,
        )
        self.store = MessageStore(store_options, env, self.files.make_log)
        self.roles: list[tuple[str, int]] = []
        self.member = Member(options, self.files, self.store, env, self)

    def leads(self, term: int) -> None:
        self.roles.append(("leader", term))
        self.member.accept(term)

    def follows(self, term: int, leader: str | None) -> None:
        self.roles.append(("follower", term))

    async def start(self) -> None:
        self.store.open()
        self.store.start(asyncio.get_running_loop())
        await self.member.start("127.0.0.1")

    async def stop(self) -> None:
        await self.member.stop()
        await self.store.close()

    async def put(self, body: bytes, topic: str = "orders", queue_id: int = 0) -> PutStatus:
        """Append a message and wait until it is acknowledged or not."""
        result = self.store.append(unit(body=body, topic=topic, queue_id=queue_id))
        if result.status is not PutStatus.OK:
            return result.status
        done: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()
        self.member.when_committed(result.end_offset, lambda status: None if done.done() else done.set_result(status))
        return await done


class Group:
    """Members n0, n1, ... of one group."""

    def __init__(self, root: Path, count: int = 3, *, file_size: int = 1 << 14, election_ms: int = 1000) -> None:
        ports = [free_port() for _ in range(count)]
        self.peers = {f"n{number}": f"127.0.0.1:{port}" for number, port in enumerate(ports)}
        self.root = root
        self.running: dict[str, Running] = {}
        self._file_size = file_size
        self._election_ms = election_ms
        self.gather_ms = 500

    async def start(self, *ids: str, env: Env | None = None, peers: dict[str, str] | None = None) -> None:
        for id in ids or tuple(self.peers):
            options = MemberOptions(
                group="g",
                id=id,
                peers=peers or self.peers,
                heartbeat_ms=50,
                election_ms=self._election_ms,
                checkpoint_ms=300,
                scrub_pause_ms=50,
                gather_ms=self.gather_ms,
            )
            running = Running(options, self.root / id, env or Env(), self._file_size)
            await running.start()
            self.running[id] = running

    async def stop(self, *ids: str) -> None:
        for id in ids or tuple(self.running):
            await self.running.pop(id).stop()

    async def leader(self) -> Running:
        """The member that serves, once there is one."""
        found: list[Running] = []

        def serving() -> bool:
            found[:] = [running for running in self.running.values() if running.member.serving]
            return bool(found)

        await until(serving)
        return found[0]

    async def fill(self, count: int, label: str = "m") -> list[bytes]:
        """Send messages to whoever leads; returns those that were acknowledged, in their order."""
        acknowledged: list[bytes] = []
        for first in range(0, count, 50):
            leader = await self.leader()
            sent = [b"%s%d" % (label.encode(), n) for n in range(first, min(first + 50, count))]
            statuses = await asyncio.gather(*(leader.put(body) for body in sent))
            acknowledged += [body for body, status in zip(sent, statuses, strict=True) if status is PutStatus.OK]
        assert acknowledged
        return acknowledged

    async def same_everywhere(self, acknowledged: list[bytes], topic: str = "orders") -> list[bytes]:
        """Wait until all members have the same messages; what was acknowledged is among them, in its order."""

        def bodies() -> list[list[bytes]]:
            return [[unit.body for unit in read_all(r.store, topic)] for r in self.running.values()]

        await until(lambda: all(found == bodies()[0] for found in bodies()) and set(acknowledged) <= set(bodies()[0]))
        found = bodies()[0]
        assert [body for body in found if body in set(acknowledged)] == acknowledged
        assert len(set(found)) == len(found)
        return found

    async def caught_up(self) -> None:
        """Wait until all have dispatched what the leader has."""
        leader = await self.leader()
        await until(lambda: all(running.store.log_max == leader.store.log_max for running in self.running.values()))
