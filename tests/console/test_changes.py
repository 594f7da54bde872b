"""Each change by each role, asked of the server's own door, and what the audit log says of it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ariane.aio import Producer
from ariane.client.options import ClientOptions
from ariane.console.access import Account
from ariane.console.audit import AuditLog
from ariane.console.change import Stale
from ariane.console.changes import Changes
from ariane.console.cluster import Cluster
from ariane.console.config_file import ConfigFile
from ariane.console.pages.delays import EDGE_NAMES, delays
from ariane.console.pages.tables import csv_text
from ariane.console.people.sessions import Sessions
from ariane.console.people.users import Users
from ariane.console.people.visitor import SessionEnded, Visitor
from ariane.console.rights import CHANGES, Forbidden, Role
from ariane.console.watch.alarms import AlarmRules, RulesFile
from ariane.console.watch.notices import Notifier
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
    "letters.export": lambda door, who, at: door.export_letters(who, at, "none"),
    "transaction.end": lambda door, who, at: door.end_transaction(who, at, "none", commit=True),
    "broker.configure": lambda door, who, at: door.configure_broker(who, at, "127.0.0.1:1", "flushDiskType", "x"),
    "broker.drain": lambda door, who, at: door.drain(who, at, "none", undo=False),
    "broker.promote": lambda door, who, at: door.promote(who, at, "127.0.0.1:1", "none"),
    "access.account": lambda door, who, at: door.update_account(who, at, Account("none"), None, {}, []),
    "access.delete": lambda door, who, at: door.delete_account(who, at, "none", {}),
    "access.white": lambda door, who, at: door.set_white(who, at, "127.0.0.1:1", (), ()),
    "alarms.change": lambda door, who, at: door.change_rules(who, AlarmRules(), AlarmRules(lag=7)),
    "alarms.test": lambda door, who, at: door.test_notices(who, []),
    "user.add": lambda door, who, at: door.add_user(who, "no name", Role.VIEWER),
    "user.role": lambda door, who, at: door.set_user_role(who, "none", Role.VIEWER),
    "user.reset": lambda door, who, at: door.reset_user(who, "none"),
    "user.remove": lambda door, who, at: door.remove_user(who, "none"),
}


class Desk:
    """The door for changes over a running cluster, and a visitor of each role."""

    def __init__(self, options: ClientOptions, folder: Path) -> None:
        env = Env()
        self.folder = folder
        self.now = env.clock.now_ms
        self.users = Users(folder / "users.json")
        self.sessions = Sessions(self.users, env.clock, 1)
        self.audit = AuditLog(folder / "audit.jsonl", env.clock)
        self.rules = RulesFile(folder / "alarms.json")
        self.door = Changes(self.users, self.audit, folder, self.rules, Notifier(ConfigFile(), env.clock))
        self.cluster = Cluster("main", options, env)
        self.ruled: Any = None

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
    found = Desk(ClientOptions(name_servers=cluster.namesrv), tmp_path)
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


async def test_a_new_topic_or_group_is_found_though_the_list_is_kept(desk: Desk) -> None:
    assert "quite-new" not in {one.name for one in await desk.cluster.topics()}
    await desk.cluster.admin.create_topic("quite-new", queues=1)  # by somebody else
    assert "quite-new" not in {one.name for one in await desk.cluster.topics()}
    found = await desk.cluster.topic("quite-new")
    assert found is not None
    assert found.read_queues == 1
    assert await desk.cluster.topic("none") is None
    assert "new-group" not in {one.name for one in await desk.cluster.groups()}
    await desk.cluster.admin.create_group("new-group")
    assert await desk.cluster.has_group("new-group")
    assert not await desk.cluster.has_group("none")
    assert not await desk.cluster.has_group("no/name")


async def test_an_answer_from_before_a_change_is_not_kept(desk: Desk) -> None:
    go, answers = asyncio.Event(), iter(["before", "after"])

    async def make() -> str:
        answer = next(answers)
        await go.wait()
        return answer

    early = asyncio.ensure_future(desk.cluster.ask("state", 60, make))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    desk.cluster.forget()  # a change was made
    late = asyncio.ensure_future(desk.cluster.ask("state", 60, make))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    go.set()
    assert (await early, await late) == ("before", "after")
    assert await desk.cluster.ask("state", 60, make) == "after"


async def test_messages_of_a_level_that_delivered_none_are_counted_as_waiting(desk: Desk, cluster: Servers) -> None:
    async with Producer("shop", name_servers=cluster.namesrv) as producer:
        for level in (14, 16, 16):
            await producer.send(Message("delayed", b"later", delay_level=level))
    found = await delays(desk.cluster, desk.now())
    waiting = dict(zip(found.levels, found.by_level, strict=True))
    assert {level: count for level, count in waiting.items() if count} == {"10m": 1, "30m": 2}
    due = dict(zip(EDGE_NAMES, found.by_due, strict=True))
    assert {name: count for name, count in due.items() if count} == {"≤ 10 min": 1, "≤ 30 min": 2}
    found = await delays(desk.cluster, desk.now() + 21 * 60_000)  # later, with the first one not delivered
    due = dict(zip(EDGE_NAMES, found.by_due, strict=True))
    assert {name: count for name, count in due.items() if count} == {"≤ 10 s": 1, "≤ 10 min": 2}


async def test_messages_with_a_time_of_their_own_are_in_the_histogram(desk: Desk, cluster: Servers) -> None:
    before = await delays(desk.cluster, desk.now())
    async with Producer("shop", name_servers=cluster.namesrv) as producer:
        for minutes in (720, 720, 3000):  # far from where a bar begins: the broker counts by hours
            await producer.send(Message("timed", b"then", deliver_at=desk.now() + minutes * 60_000))
    async with asyncio.timeout(30):
        while (found := await delays(desk.cluster, desk.now())).timed < before.timed + 3:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    more = [now - then for now, then in zip(found.by_due, before.by_due, strict=True)]
    assert {name: count for name, count in zip(EDGE_NAMES, more, strict=True) if count} == {"≤ 1 d": 2, "> 1 d": 1}


async def test_two_operators_do_not_overwrite_each_other(desk: Desk) -> None:
    anna, bert = desk.visitor(Role.ADMIN), desk.visitor(Role.OPERATOR)
    await desk.door.create_topic(anna, desk.cluster, "shared", 2)
    seen = {"read": 2, "write": 2, "perm": 6}
    await desk.door.change_topic(anna, desk.cluster, "shared", "broker-a", 4, 4, 6, seen)
    with pytest.raises(Stale, match="changed meanwhile"):
        await desk.door.change_topic(bert, desk.cluster, "shared", "broker-a", 3, 3, 6, seen)
    assert desk.audit.newest(1)[0].outcome.startswith("failed: it was changed meanwhile")
    address = (await desk.cluster.master_names())["broker-a"]
    before = (await desk.cluster.admin.broker_options(address))["transactionCheckMax"]
    await desk.door.configure_broker(anna, desk.cluster, address, "transactionCheckMax", "9", before)
    with pytest.raises(Stale):
        await desk.door.configure_broker(anna, desk.cluster, address, "transactionCheckMax", "8", before)
    await desk.door.change_rules(anna, AlarmRules(lag=5), AlarmRules())
    with pytest.raises(Stale):
        await desk.door.change_rules(anna, AlarmRules(lag=6), AlarmRules())
    assert RulesFile(desk.folder / "alarms.json").current == AlarmRules(lag=5)


async def test_a_reset_is_refused_when_the_group_was_moved_back_after_the_preview(desk: Desk, cluster: Servers) -> None:
    who, admin = desk.visitor(Role.OPERATOR), desk.cluster.admin
    await desk.door.create_topic(who, desk.cluster, "moved", 1)
    async with Producer("shop", name_servers=cluster.namesrv) as producer:
        for _ in range(3):
            await producer.send(Message("moved", b"x"))
    await admin.create_group("mover")
    queue = (await admin.queues("moved"))[0]
    await admin.commit("mover", queue, 2)
    plan = await admin.reset_offline("mover", "moved", -1, dry_run=True)
    await admin.commit("mover", queue, 3)  # its consumer goes on: no reason to refuse
    await desk.door.reset(who, desk.cluster, "mover", "moved", -1, plan)
    await admin.commit("mover", queue, 0)
    with pytest.raises(Stale, match="moved back"):
        await desk.door.reset(who, desk.cluster, "mover", "moved", -1, plan)
    assert await admin.committed("mover", queue) == 0


async def test_queues_are_removed_only_in_the_safe_order(desk: Desk, cluster: Servers) -> None:
    who, admin = desk.visitor(Role.OPERATOR), desk.cluster.admin
    await desk.door.create_topic(who, desk.cluster, "shrunk", 2)
    await admin.create_group("slow-reader")
    async with Producer("shop", name_servers=cluster.namesrv) as producer:
        for _ in range(4):
            await producer.send(Message("shrunk", b"x"))
    for queue in await admin.queues("shrunk"):
        await admin.commit("slow-reader", queue, 1)
    change = partial(desk.door.change_topic, who, desk.cluster, "shrunk", "broker-a")
    with pytest.raises(ClientError, match="lower the write queues first"):
        await change(1, 1, 6)
    await change(2, 1, 6)
    with pytest.raises(ClientError, match=r"wait for groups: slow-reader \(1\)"):
        await change(1, 1, 6)
    for queue in await admin.queues("shrunk"):
        await admin.commit("slow-reader", queue, 2)
    await change(1, 1, 6)
    assert len(await admin.queues("shrunk")) == 1


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
