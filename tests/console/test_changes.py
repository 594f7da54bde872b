"""Each change by each role, asked of the server's own door, and what the audit log says of it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ariane.aio import Producer
from ariane.client.options import ClientOptions
from ariane.console.audit import AuditLog
from ariane.console.changes import Changes
from ariane.console.cluster import Cluster
from ariane.console.pages.delays import delays
from ariane.console.pages.tables import csv_text
from ariane.console.rights import CHANGES, Forbidden, Role
from ariane.console.sessions import Sessions
from ariane.console.users import Users
from ariane.console.visitor import SessionEnded, Visitor
from ariane.env import Env
from ariane.errors import ArianeError, ClientError
from ariane.message import Message, MessageQueue, ReceivedMessage
from tests.cluster import Cluster as Servers

MESSAGE = ReceivedMessage(
    topic="no/name",
    body=b"",
    properties={},
    queue=MessageQueue("no/name", "none", 0),
    queue_offset=0,
    physical_offset=0,
    message_id="id",
    offset_id="id",
    born_time=0,
    born_host="",
    store_time=0,
    store_host="127.0.0.1:1",
    reconsume_times=0,
    sys_flag=0,
    flag=0,
)
CALLS: dict[str, Callable[[Changes, Visitor, Cluster], Awaitable[object]]] = {
    "topic.create": lambda door, who, at: door.create_topic(who, at, "no/name", 1),
    "topic.change": lambda door, who, at: door.change_topic(who, at, "none", "none", 1, 2, 6),
    "topic.delete": lambda door, who, at: door.delete_topic(who, at, "none"),
    "message.send": lambda door, who, at: door.send(who, at, "no/name", "x"),
    "message.resend": lambda door, who, at: door.resend(who, at, MESSAGE),
    "message.consume": lambda door, who, at: door.consume_again(who, at, MESSAGE, "none", "none"),
    "group.create": lambda door, who, at: door.create_group(who, at, "no/name", 1),
    "group.delete": lambda door, who, at: door.delete_group(who, at, "none"),
    "group.reset": lambda door, who, at: door.reset(who, at, "none", "none", 0),
    "group.skip": lambda door, who, at: door.reset(who, at, "none", "none", -1),
    "letters.resend": lambda door, who, at: door.resend_letters(who, at, "none", None),
    "transaction.end": lambda door, who, at: door.end_transaction(who, at, "none", commit=True),
    "broker.configure": lambda door, who, at: door.configure_broker(who, at, "127.0.0.1:1", "flushDiskType", "x"),
    "broker.drain": lambda door, who, at: door.drain(who, at, "none", undo=False),
    "broker.promote": lambda door, who, at: door.promote(who, at, "127.0.0.1:1", "none"),
    "user.add": lambda door, who, at: door.add_user(who, "no name", Role.VIEWER),
    "user.role": lambda door, who, at: door.set_user_role(who, "none", Role.VIEWER),
    "user.reset": lambda door, who, at: door.reset_user(who, "none"),
    "user.remove": lambda door, who, at: door.remove_user(who, "none"),
}


class Desk:
    """The door for changes over a running cluster, and a visitor of each role."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        env = Env()
        self.users = Users(folder / "users.json")
        self.sessions = Sessions(self.users, env.clock, 1)
        self.audit = AuditLog(folder / "audit.jsonl", env.clock)
        self.door = Changes(self.users, self.audit, folder)
        self.cluster = Cluster("main", ClientOptions(name_servers=servers.namesrv), env)

    def visitor(self, role: Role) -> Visitor:
        name = role.name.lower()
        if self.users.get(name) is None:
            self.users.add(name, role)
            self.users.set_password(name, "a password of tests")
        user = self.users.get(name)
        assert user is not None
        return Visitor(self.sessions, self.sessions.open(user), "192.0.2.1")


@pytest.fixture
async def desk(cluster: Servers, tmp_path: Path):  # type: ignore[no-untyped-def]
    found = Desk(cluster, tmp_path)
    await found.cluster.start()
    yield found
    await found.cluster.stop()


def test_every_change_has_a_call_here() -> None:
    assert CALLS.keys() == CHANGES.keys()
    methods = [name for name, _ in inspect.getmembers(Changes, inspect.isfunction) if not name.startswith("_")]
    assert len(methods) == len(CALLS) - 1  # reset and skip are one


@pytest.mark.parametrize("role", Role)
async def test_each_role_makes_its_changes_and_no_others(desk: Desk, role: Role) -> None:
    who = desk.visitor(role)
    for change, lowest in CHANGES.items():
        try:
            async with asyncio.timeout(30):
                await CALLS[change](desk.door, who, desk.cluster)
            refused = False
        except Forbidden:
            refused = True
        except (ArianeError, ValueError):
            refused = False  # it was let in, and then found nothing of this name
        assert refused == (role < lowest), change
        entry = desk.audit.newest(1)[0]
        assert (entry.what, entry.user, entry.address) == (change, role.name.lower(), "192.0.2.1")
        assert (entry.outcome == "refused") == refused


async def test_a_role_that_was_taken_away_counts_at_once(desk: Desk) -> None:
    desk.visitor(Role.ADMIN)
    who = desk.visitor(Role.OPERATOR)
    await desk.door.create_topic(who, desk.cluster, "before-the-change", 1)
    desk.users.set_role("operator", Role.VIEWER)
    with pytest.raises(Forbidden):
        await desk.door.create_topic(who, desk.cluster, "after-the-change", 1)
    desk.users.remove("operator")
    with pytest.raises(SessionEnded):
        await desk.door.create_topic(who, desk.cluster, "after-the-change", 1)


async def test_a_change_is_audited_with_before_and_after(desk: Desk, cluster: Servers) -> None:
    who = desk.visitor(Role.ADMIN)
    await desk.door.create_topic(who, desk.cluster, "audited", 2)
    await desk.door.change_topic(who, desk.cluster, "audited", "broker-a", 4, 3, 6)
    entry = desk.audit.newest(1)[0]
    assert entry.before == {"read": 2, "write": 2, "perm": 6}
    assert entry.after == {"read": 4, "write": 3, "perm": 6}
    with pytest.raises(ClientError, match="more queues to write than to read"):
        await desk.door.change_topic(who, desk.cluster, "audited", "broker-a", 2, 3, 6)
    assert desk.audit.newest(1)[0].outcome.startswith("failed: ")
    address = (await desk.cluster.master_names())["broker-a"]
    await desk.door.configure_broker(who, desk.cluster, address, "transactionCheckMax", "7")
    entry = desk.audit.newest(1)[0]
    assert (entry.before, entry.after) == ("15", "7")
    with pytest.raises(ClientError, match="not among the options"):
        await desk.door.configure_broker(who, desk.cluster, address, "storePathRootDir", "/tmp")
    await desk.door.drain(who, desk.cluster, "broker-a", undo=False)
    assert [one.perm for one in (await desk.cluster.admin.route("audited")).queue_datas] == [4]
    await desk.door.drain(who, desk.cluster, "broker-a", undo=True)
    assert [one.perm for one in (await desk.cluster.admin.route("audited")).queue_datas] == [6]


async def test_one_query_serves_all_who_ask_and_ends_when_they_leave(desk: Desk) -> None:
    begun, ended = 0, 0
    go = asyncio.Event()

    async def slow() -> int:
        nonlocal begun, ended
        begun += 1
        try:
            await go.wait()
        finally:
            ended += 1
        return 7

    waiting = [asyncio.ensure_future(desk.cluster.ask("slow", 60, slow)) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for one in waiting[:4]:
        one.cancel()
    await asyncio.gather(*waiting[:4], return_exceptions=True)
    assert (begun, ended) == (1, 0)
    go.set()
    assert await waiting[4] == 7
    assert await desk.cluster.ask("slow", 60, slow) == 7
    assert begun == 1
    go.clear()
    desk.cluster.forget()
    last = asyncio.ensure_future(desk.cluster.ask("slow", 60, slow))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    last.cancel()
    await asyncio.gather(last, return_exceptions=True)
    await asyncio.sleep(0)
    assert (begun, ended) == (2, 2)


async def test_messages_of_a_level_that_delivered_none_are_counted_as_waiting(desk: Desk, cluster: Servers) -> None:
    async with Producer("shop", name_servers=cluster.namesrv) as producer:
        for level in (14, 16, 16):
            await producer.send(Message("delayed", b"later", delay_level=level))
    levels, waiting = await delays(desk.cluster)
    assert {level: count for level, count in zip(levels, waiting, strict=True) if count} == {"10m": 1, "30m": 2}


def test_an_export_has_no_formulas() -> None:
    rows = [["=cmd()", "+1", "-1", "@x", " =y", "\t=z", -5, None, "plain"]]
    text = csv_text(["a"] * 9, rows).splitlines()[1]
    assert text == "'=cmd(),'+1,'-1,'@x,' =y,'\t=z,-5,,plain"


def test_the_audit_log_survives_a_torn_line(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", Env().clock)
    log.write("anna", "192.0.2.1", "login", "done")
    with (tmp_path / "audit.jsonl").open("a") as file:
        file.write('{"time": 1, "us\n')
    log.write("bert", "192.0.2.1", "login", "done")
    assert [one.user for one in log.newest()] == ["bert", "anna"]
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600
