"""A broker with access control: what Apache's leaves open is closed, what honest clients need works."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from ariane.access.signer import Signer
from ariane.broker.config.ha_options import ha_options
from ariane.env import Env, ManualClock, SystemClock
from ariane.protocol.codes import RequestCode as Code
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import BINARY, Command
from ariane.protocol.frame import encode
from ariane.protocol.frame_head import framed
from ariane.protocol.signing import sign
from ariane.protocol.units import Unit, encode_unit
from ariane.remoting import Client, RpcHook
from tests.access.matrix import is_refused
from tests.access.test_matrix import guarded
from tests.broker.talk import PATIENCE, Talk, pull_fields, send_fields, settled, small_broker

UNIT_HEAD = 88  # bytes of a stored message before its body
CANARY = "canary-Zq9x7"
RULES = f"""
accounts:
- accessKey: operator
  secretKey: {CANARY}-admin
  admin: true
- accessKey: shop-app
  secretKey: {CANARY}-shop
  topicPerms: [orders=PUB|SUB]
  groupPerms: [shop=SUB]
- accessKey: snooper
  secretKey: {CANARY}-snoop
  topicPerms: [own=PUB|SUB]
  groupPerms: [own=SUB]
  defaultTopicPerm: DENY
- accessKey: open-app
  secretKey: {CANARY}-open
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
"""


class Caller:
    """Signed requests of one account."""

    def __init__(self, talk: Talk, access_key: str, *hooks: RpcHook) -> None:
        secrets = {"operator": "admin", "shop-app": "shop", "snooper": "snoop", "open-app": "open"}
        self.signer = Signer(access_key, f"{CANARY}-{secrets[access_key]}")
        self.client = Client(clock=SystemClock(), hooks=(*hooks, self.signer))
        self.address = talk.address

    async def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", **more: int) -> Command:
        return await self.client.request(self.address, Command(code, dict(fields or {}), body, **more), PATIENCE)

    async def send(self, topic: str, body: bytes = b"x", **header: object) -> Command:
        return await self.ask(Code.SEND_MESSAGE_V2, send_fields(topic, **header), body)

    async def refused(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> str:
        answer = await self.ask(code, fields, body)
        assert is_refused(answer), answer
        assert answer.code == ResponseCode.SYSTEM_ERROR
        return answer.remark or ""


async def test_foreign_messages_retries_and_transactions_are_closed(tmp_path: Path) -> None:
    async with guarded(tmp_path, RULES) as talk:
        shop, snooper = Caller(talk, "shop-app"), Caller(talk, "snooper")
        store = talk.broker.store
        place = store.log_max
        assert (await shop.send("orders", properties="KEYS\x01k\x02")).code == 0
        half = store.log_max
        prepared = {"sys_flag": 4, "properties": "TRAN_MSG\x01true\x02PGROUP\x01producers\x02UNIQ_KEY\x01u1\x02"}
        answer = await shop.send("orders", **prepared)
        assert answer.code == 0
        delayed = store.log_max
        assert (await shop.send("orders", properties="DELAY\x0118\x02")).code == 0
        for at in (place, half, delayed):
            assert "topic:orders" in await snooper.refused(Code.VIEW_MESSAGE_BY_ID, {"offset": str(at)})
            assert (await shop.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": str(at)})).code == 0
            back = {"offset": str(at), "group": "own", "delayLevel": "1"}
            assert "topic:orders" in await snooper.refused(Code.CONSUMER_SEND_MSG_BACK, back)
        decision = {
            "producerGroup": "producers",
            "tranStateTableOffset": "0",
            "commitLogOffset": str(half),
            "commitOrRollback": "8",
            "msgId": "u1",
            "transactionId": "u1",
        }
        await snooper.refused(Code.END_TRANSACTION, decision)
        beyond = await snooper.ask(Code.END_TRANSACTION, {**decision, "commitLogOffset": "99999999"})
        assert beyond.remark == "Find prepared transaction message failed"
        assert (await shop.ask(Code.END_TRANSACTION, decision)).code == 0
        end = store.log_max
        for code, fields in (
            (Code.SEND_MESSAGE, send_fields("%RETRY%shop", v2=False, producer_group="own")),
            (Code.SEND_MESSAGE_V2, send_fields("%RETRY%shop", producer_group="own")),
            (Code.SEND_BATCH_MESSAGE, send_fields("%RETRY%shop", producer_group="own", batch=True)),
            (Code.SEND_MESSAGE_V2, send_fields("%DLQ%shop", producer_group="own")),
        ):
            await snooper.refused(code, fields, b"x")
        assert store.log_max == end
        await snooper.refused(Code.PULL_MESSAGE, pull_fields("own", consumer_group="shop"))
        await snooper.refused(Code.PULL_MESSAGE, pull_fields("%RETRY%shop", consumer_group="own"))
        await snooper.refused(Code.PULL_MESSAGE, pull_fields("%DLQ%shop", consumer_group="own"))
        clone = {"srcGroup": "own", "destGroup": "shop", "topic": "own", "offline": "true"}
        await snooper.refused(Code.CLONE_GROUP_OFFSET, clone)
        for caller in (shop, snooper):
            await caller.client.close()


async def test_bytes_in_a_body_that_look_like_a_message_open_nothing(tmp_path: Path) -> None:
    """A unit forged in a body claims a topic of the sender's, and reaches over the next messages in the log."""
    async with guarded(tmp_path, RULES) as talk:
        shop, snooper = Caller(talk, "shop-app"), Caller(talk, "snooper")
        store = talk.broker.store
        prepared = "TRAN_MSG\x01true\x02PGROUP\x01producers\x02UNIQ_KEY\x01u1\x02"
        half = store.log_max
        assert (await shop.send("orders", sys_flag=4, properties=prepared)).code == 0

        # A half message of the sender's own topic that has the queue offset and the identity of another one.
        place = store.log_max + UNIT_HEAD
        real = store.unit_at(half)
        assert real is not None
        mine = b"TRAN_MSG\x01true\x02PGROUP\x01mine\x02UNIQ_KEY\x01u1\x02REAL_TOPIC\x01own\x02REAL_QID\x010\x02"
        forged = Unit(
            b"RMQ_SYS_TRANS_HALF_TOPIC", b"x", mine, physical_offset=place, queue_offset=0, born_time=real.born_time
        )
        assert (await snooper.send("own", encode_unit(forged))).code == 0
        assert store.unit_at(place) is not None
        end = store.log_max
        decision = {
            "producerGroup": "mine",
            "tranStateTableOffset": "0",
            "commitLogOffset": str(place),
            "commitOrRollback": "12",
            "msgId": "u1",
            "transactionId": "u1",
        }
        answer = await snooper.ask(Code.END_TRANSACTION, decision)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
        assert store.log_max == end

        # A message around others: its head is in one body, its tail in another one.
        place = end + UNIT_HEAD
        tail = encode_unit(Unit(b"own", b""))[UNIT_HEAD:]
        first = stored_size(UNIT_HEAD, "own")
        secret = stored_size(len(b"the secret"), "orders")
        between = (first - 2 * UNIT_HEAD) + secret + UNIT_HEAD
        whole = Unit(b"own", b"-" * between, physical_offset=place)
        assert (await snooper.send("own", encode_unit(whole)[:UNIT_HEAD])).code == 0
        assert (await shop.send("orders", b"the secret")).code == 0
        assert (await snooper.send("own", tail)).code == 0
        found = store.unit_at(place)
        assert found is not None
        assert b"the secret" in found.body  # as planned
        view = await snooper.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": str(place)})
        assert view.code == ResponseCode.SYSTEM_ERROR
        assert not view.body
        back = {"offset": str(place), "group": "own", "delayLevel": "1"}
        assert (await snooper.ask(Code.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SYSTEM_ERROR
        for caller in (shop, snooper):
            await caller.client.close()


def stored_size(body: int, topic: str) -> int:
    """Of a message without properties."""
    return UNIT_HEAD + body + 1 + len(topic) + 2 + len(b"CLUSTER\x01DefaultCluster")


async def test_the_brokers_own_topics_are_opened_by_no_default(tmp_path: Path) -> None:
    async with guarded(tmp_path, RULES) as talk:
        caller, operator = Caller(talk, "open-app"), Caller(talk, "operator")
        assert (await caller.send("anything")).code == 0
        for topic in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"):
            await caller.refused(Code.PULL_MESSAGE, pull_fields(topic))
            assert not is_refused(await operator.ask(Code.PULL_MESSAGE, pull_fields(topic)))
        for one in (caller, operator):
            await one.client.close()


async def test_what_honest_clients_need_works_and_a_refusal_names_the_missing_rule(tmp_path: Path) -> None:
    async with guarded(tmp_path, RULES) as talk:
        shop = Caller(talk, "shop-app")
        assert (await shop.send("RMQ_SYS_TRACE_TOPIC")).code == 0
        remark = await shop.refused(Code.PULL_MESSAGE, pull_fields("RMQ_SYS_TRACE_TOPIC", consumer_group="shop"))
        assert "topicPerms of shop-app needs RMQ_SYS_TRACE_TOPIC=SUB" in remark
        inner = send_fields("%RETRY%shop", producer_group="CLIENT_INNER_PRODUCER")
        remark = await shop.refused(Code.SEND_MESSAGE_V2, inner, b"x")
        assert "groupPerms of shop-app needs CLIENT_INNER_PRODUCER=SUB" in remark
        reply = send_fields("DefaultCluster_REPLY_TOPIC")
        assert not is_refused(await shop.ask(Code.SEND_REPLY_MESSAGE_V2, reply, b"x"))
        producer = {"clientID": "c", "producerGroup": "any", "consumerGroup": ""}
        assert (await shop.ask(Code.UNREGISTER_CLIENT, producer)).code == 0
        heartbeat = {"clientID": "c", "producerDataSet": [{"groupName": "any"}], "consumerDataSet": []}
        assert (await shop.ask(Code.HEART_BEAT, {}, json.dumps(heartbeat).encode())).code == 0
        await shop.client.close()


async def test_rules_are_administered_as_mqadmin_does_it_and_no_secret_is_shown(tmp_path: Path) -> None:
    async with guarded(tmp_path, RULES) as talk:
        operator = Caller(talk, "operator")
        file = tmp_path / "conf/plain_acl.yml"
        new = {"accessKey": "new-app1", "secretKey": "new-secret", "topicPerms": "news=PUB,other=SUB", "admin": "false"}
        assert (await operator.ask(Code.UPDATE_AND_CREATE_ACL_CONFIG, new)).code == 0
        command = Command(Code.SEND_MESSAGE_V2, send_fields("news"), b"x")
        Signer("new-app1", "new-secret").before_request("", command)
        assert (await talk.client.request(talk.address, command, PATIENCE)).code == 0  # in force at once
        for wrong, reason in (
            ({"accessKey": "short"}, "accessKey"),
            ({"secretKey": "short"}, "secretKey"),
            ({"topicPerms": "a=READ"}, "a=READ"),
            ({"groupPerms": "a"}, "Res=Perm"),
            ({"whiteRemoteAddress": "bogus"}, "bogus"),
            ({"accessKey": "other-app", "secretKey": ""}, "secretKey"),
        ):
            answer = await operator.ask(Code.UPDATE_AND_CREATE_ACL_CONFIG, {**new, **wrong})
            assert answer.code == ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
            assert reason in (answer.remark or "")
            assert "new-secret" not in (answer.remark or "")
        merged = {"accessKey": "shop-app", "defaultTopicPerm": "SUB"}  # Apache demands the secret for each change
        assert (await operator.ask(Code.UPDATE_AND_CREATE_ACL_CONFIG, merged)).code == 0
        config = json.loads((await operator.ask(Code.GET_BROKER_CLUSTER_ACL_CONFIG)).body)
        accounts = {one["accessKey"]: one for one in config["plainAccessConfigs"]}
        assert accounts["shop-app"]["topicPerms"] == ["orders=PUB|SUB"]
        assert accounts["shop-app"]["defaultTopicPerm"] == "SUB"
        assert {one["secretKey"] for one in accounts.values()} == {"******"}
        white = {"globalWhiteAddrs": "10.1.2.*,10.1.3.*"}
        assert (await operator.ask(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, white)).code == 0
        for wrong in (
            {"globalWhiteAddrs": "bogus"},
            {**white, "aclFileFullPath": str(tmp_path / "conf/../../etc/passwd")},
            {**white, "aclFileFullPath": "/etc/passwd"},
            {**white, "aclFileFullPath": str(tmp_path / "conf")},
        ):
            answer = await operator.ask(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, wrong)
            assert answer.code == ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        named = {**white, "aclFileFullPath": str(file)}
        assert (await operator.ask(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, named)).code == 0
        versions = (await operator.ask(Code.GET_BROKER_CLUSTER_ACL_INFO)).fields
        assert json.loads(versions["version"])["counter"] == 4
        assert json.loads(versions["allAclFileVersion"])[str(file)]["counter"] == 4
        assert (await operator.ask(Code.DELETE_ACL_CONFIG, {"accessKey": "new-app1"})).code == 0
        gone = await operator.ask(Code.DELETE_ACL_CONFIG, {"accessKey": "new-app1"})
        assert gone.code == ResponseCode.DELETE_ACL_CONFIG_FAILED
        await operator.client.close()
    async with Talk.to(small_broker(tmp_path / "store", rocketmqHome=tmp_path, aclEnable=True)) as talk:
        assert talk.broker.access is not None
        assert sorted(talk.broker.access.rules.current.accounts) == ["open-app", "operator", "shop-app", "snooper"]


async def test_a_deleted_account_is_in_no_file_any_more(tmp_path: Path) -> None:
    """An older account of the same key in another file must not come back with its old secret and rights."""
    (tmp_path / "conf/acl").mkdir(parents=True)
    (tmp_path / "conf/plain_acl.yml").write_text(RULES)
    twice = "accounts:\n- {accessKey: shop-app, secretKey: newer-secret}\n- {accessKey: other-app, secretKey: another1}"
    (tmp_path / "conf/acl/team.yml").write_text(twice)
    async with Talk.to(small_broker(tmp_path / "store", rocketmqHome=tmp_path, aclEnable=True)) as talk:
        operator = Caller(talk, "operator")
        assert (await operator.ask(Code.DELETE_ACL_CONFIG, {"accessKey": "shop-app"})).code == 0
        await operator.client.close()
        assert talk.broker.access is not None
        assert sorted(talk.broker.access.rules.current.accounts) == ["open-app", "operator", "other-app", "snooper"]
        shop = Caller(talk, "shop-app")
        assert "No acl config for shop-app" in await shop.refused(Code.SEND_MESSAGE_V2, send_fields("orders"), b"x")
        await shop.client.close()


async def test_a_changed_file_is_in_force_within_seconds(tmp_path: Path) -> None:
    clock = ManualClock()
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf/plain_acl.yml"
    file.write_text(RULES)
    broker = small_broker(tmp_path / "store", env=Env(clock=clock), rocketmqHome=tmp_path, aclEnable=True)
    async with Talk.to(broker) as talk:
        shop = Caller(talk, "shop-app")
        assert (await shop.send("orders")).code == 0
        file.write_text(RULES.replace("orders=PUB|SUB", "orders=SUB"))
        async with asyncio.timeout(PATIENCE):
            while not is_refused(await shop.send("orders")):
                clock.advance(1)
        await shop.client.close()


@pytest.mark.parametrize("changed", ["topicPerms: [other=SUB]", "secretKey: another-one"])
async def test_a_pull_that_waits_is_refused_when_the_rules_change(tmp_path: Path, changed: str) -> None:
    async with guarded(tmp_path, RULES, aclReplayWindowSeconds=600) as talk:
        account = {"secretKey": f"{CANARY}-shop", "topicPerms": "[orders=PUB|SUB]", "groupPerms": "[shop=SUB]"}
        shop = Caller(talk, "shop-app")
        shop.signer = Signer("shop-app", f"{CANARY}-shop", clock=SystemClock())
        shop.client = Client(clock=SystemClock(), hooks=(shop.signer,))
        assert (await shop.send("orders")).code == 0
        wait = pull_fields("orders", 0, 1, consumer_group="shop", sys_flag=6, suspend_timeout_millis=600_000)
        pull = asyncio.ensure_future(shop.ask(Code.PULL_MESSAGE, wait))
        await settled(lambda: len(talk.broker.longpoll) == 1)
        access = talk.broker.access
        assert access is not None
        file = tmp_path / "conf/plain_acl.yml"
        file.write_text(RULES + "# nothing else\n")
        await access.rules.refresh()
        assert (access.rules.counters.reloads, len(talk.broker.longpoll)) == (1, 1)
        name, _, value = changed.partition(": ")
        fields = "".join(f"  {key}: {text}\n" for key, text in {**account, name: value}.items())
        file.write_text(f"accounts:\n- accessKey: shop-app\n{fields}")
        await access.rules.refresh()
        assert is_refused(await asyncio.wait_for(pull, PATIENCE))
        assert len(talk.broker.longpoll) == 0
        await shop.client.close()


async def test_a_white_address_grants_what_the_account_may_do_and_no_administration(tmp_path: Path) -> None:
    rules = RULES.replace("- accessKey: shop-app", "- accessKey: shop-app\n  whiteRemoteAddress: 127.0.0.1")
    async with guarded(tmp_path, rules) as talk:
        key = {"AccessKey": "shop-app"}
        assert (await talk.ask(Code.SEND_MESSAGE_V2, {**send_fields("orders"), **key}, b"x")).code == 0
        assert is_refused(await talk.ask(Code.SEND_MESSAGE_V2, {**send_fields("own"), **key}, b"x"))
        assert is_refused(await talk.ask(Code.GET_BROKER_CONFIG, key))
    for name in ("store", "conf/plain_acl.yml", "conf"):
        path = tmp_path / name
        path.unlink() if path.is_file() else path.rename(tmp_path / f"old-{path.name}")
    async with guarded(tmp_path, f"globalWhiteRemoteAddresses: [127.0.0.*]\n{RULES}") as talk:
        assert (await talk.send("orders")).code == 0
        assert (await talk.ask(Code.GET_ALL_CONSUMER_OFFSET)).code == 0  # an Apache slave asks so
        for fields in ({}, {"AccessKey": "operator"}, {"AccessKey": "operator", "Signature": "x"}):
            assert is_refused(await talk.ask(Code.GET_BROKER_CONFIG, fields))
            assert is_refused(await talk.ask(Code.GET_BROKER_CLUSTER_ACL_CONFIG, fields))
        operator = Caller(talk, "operator")
        assert (await operator.ask(Code.GET_BROKER_CONFIG)).code == 0
        await operator.client.close()


async def test_field_values_are_signed_as_apache_reads_them(tmp_path: Path) -> None:
    async with guarded(tmp_path, RULES) as talk:
        fields = {"AccessKey": "operator", "a": "", "b": "2"}
        for signed, serialization, good in (
            ({**fields, "a": "null"}, BINARY, True),  # Apache's decoder turns an empty value into null
            (fields, BINARY, True),
            (fields, 0, True),
            ({**fields, "a": "null"}, 0, False),
        ):
            command = Command(Code.GET_BROKER_RUNTIME_INFO, dict(fields), serialization=serialization)
            command.fields["Signature"] = sign(f"{CANARY}-admin", signed, b"")
            assert is_refused(await talk.client.request(talk.address, command, PATIENCE)) != good
        query = {"AccessKey": "operator", "topic": "t", "key": "k", "maxNum": "1", "beginTimestamp": "0"}
        query["endTimestamp"] = "9"
        query["Signature"] = sign(f"{CANARY}-admin", query, b"")
        query["_UNIQUE_KEY_QUERY"] = "true"  # Apache's client adds it after signing
        assert not is_refused(await talk.ask(Code.QUERY_MESSAGE, query))


async def test_replays_and_changed_requests_are_refused_in_the_strict_mode(tmp_path: Path) -> None:
    clock = ManualClock()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/plain_acl.yml").write_text(RULES)
    options = {"rocketmqHome": tmp_path, "aclEnable": True, "aclReplayWindowSeconds": 60}
    async with Talk.to(small_broker(tmp_path / "store", env=Env(clock=clock), **options)) as talk:
        signer = Signer("operator", f"{CANARY}-admin", clock=clock)

        def signed(code: int = Code.GET_TOPIC_STATS_INFO) -> Command:
            command = Command(code, {"topic": "orders"})
            signer.before_request("", command)
            return command

        async def sent(command: Command) -> Command:
            return await talk.client.request(talk.address, command, PATIENCE)

        first, second = signed(), signed()
        assert not is_refused(await sent(second))
        assert not is_refused(await sent(first))  # another connection may overtake
        assert "it was used before" in ((await sent(first)).remark or "")
        other = signed()
        assert "not those that were signed" in (
            (await sent(Command(Code.DELETE_TOPIC_IN_BROKER, other.fields))).remark or ""
        )
        moved = signed()
        fields = dict(moved.fields)
        fields["subject"] = fields.pop("topic")
        assert is_refused(await sent(Command(moved.code, fields)))
        plain = Command(Code.GET_TOPIC_STATS_INFO, {"topic": "orders"})
        Signer("operator", f"{CANARY}-admin").before_request("", plain)
        assert "stamp_requests" in ((await sent(plain)).remark or "")
        late = signed()
        clock.advance(61)
        assert "set the clocks" in ((await sent(late)).remark or "")
        assert not is_refused(await sent(signed()))
    async with Talk.to(small_broker(tmp_path / "store", env=Env(clock=clock), **options)) as talk:
        assert not is_refused(await sent(signed()))


TRICKS = [
    # A name twice: the last one counts, for the signature and for the handler.
    (b'"b":"own"', b'"b":"orders","b":"own"', b'"b":"own","b":"orders"'),
    # The same with an escaped name.
    (b'"b":"own"', b'"b":"orders","\\u0062":"own"', b'"b":"own","\\u0062":"orders"'),
    # Other fields of the name `topic`.
    (b'"b":"own"', b'"topic":"orders","b":"own"', b'"topic":"own","b":"orders"'),
    # Two objects of fields.
    (b'"extFields":{', b'"extFields":{"b":"orders"},"extFields":{', b'"extFields":{"b":"orders"},"extFields":{'),
]


@pytest.mark.parametrize("trick", TRICKS)
async def test_no_header_shows_the_gate_one_topic_and_the_handler_another(
    tmp_path: Path, trick: tuple[bytes, bytes, bytes]
) -> None:
    async with guarded(tmp_path, RULES) as talk:
        shop, snooper = Caller(talk, "shop-app"), Caller(talk, "snooper")
        assert (await shop.send("orders")).code == 0
        stored = talk.broker.store.max_offset("orders", 0)
        reader, writer = await asyncio.open_connection(*talk.address.split(":"))
        for _ in range(3):  # a header is decoded, then recognised by its shape
            command = Command(Code.SEND_MESSAGE_V2, send_fields("own"), b"x")
            snooper.signer.before_request("", command)
            frame = encode(command)
            header = frame[8 : len(frame) - 1]
            for forged in trick[1:]:
                changed = header.replace(trick[0], forged)
                assert changed != header
                writer.write(framed(changed, 0, 1) + b"x")
                answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                assert b'"code"' in answer
        writer.close()
        await writer.wait_closed()
        assert talk.broker.store.max_offset("orders", 0) == stored
        for caller in (shop, snooper):
            await caller.client.close()


async def test_a_stranger_in_a_producer_group_is_not_shown_its_half_messages(tmp_path: Path) -> None:
    """Anybody may join a producer group, and Apache's broker shows any member the message that it asks about."""
    asked: dict[str, list[Command]] = {"shop-app": [], "snooper": []}
    clock = ManualClock()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/plain_acl.yml").write_text(RULES)
    options = {"rocketmqHome": tmp_path, "aclEnable": True, "transactionTimeOut": 0, "transactionCheckInterval": 1000}
    async with Talk.to(small_broker(tmp_path / "store", env=Env(clock=clock), **options)) as talk:
        callers = {name: Caller(talk, name) for name in asked}
        for name, caller in callers.items():

            def note(_: object, request: Command, name: str = name) -> None:
                asked[name].append(request)

            signer = caller.signer
            await caller.client.close()
            handlers = {Code.CHECK_TRANSACTION_STATE: note}
            caller.client = Client(clock=SystemClock(), handlers=handlers, hooks=(signer,))
            body = {"clientID": name, "producerDataSet": [{"groupName": "producers"}], "consumerDataSet": []}
            assert (await caller.ask(Code.HEART_BEAT, {}, json.dumps(body).encode())).code == 0
        properties = "TRAN_MSG\x01true\x02PGROUP\x01producers\x02UNIQ_KEY\x01u1\x02"
        assert (await callers["shop-app"].send("orders", sys_flag=4, properties=properties)).code == 0
        async with asyncio.timeout(PATIENCE):
            while len(asked["shop-app"]) < 4:
                clock.advance(1)
                await callers["snooper"].ask(Code.GET_BROKER_RUNTIME_INFO)
        assert asked["snooper"] == []
        for caller in callers.values():
            await caller.client.close()


async def test_credentials_are_not_handed_on_to_consumers(tmp_path: Path) -> None:
    """Apache's broker relays all fields of an operator's request, his signature among them."""
    async with guarded(tmp_path, RULES) as talk:
        operator = Caller(talk, "operator")
        talk.answers[Code.GET_CONSUMER_RUNNING_INFO] = lambda request: request.reply()
        shop = Signer("shop-app", f"{CANARY}-shop")
        talk.client = Client(clock=SystemClock(), handlers={Code.GET_CONSUMER_RUNNING_INFO: talk._asked}, hooks=(shop,))
        assert (await talk.heartbeat("shop", {"orders": "*"}, client_id="c1")).code == 0
        asked = await operator.ask(Code.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "shop", "clientId": "c1"})
        assert asked.code == 0
        [relayed] = talk.received
        assert sorted(relayed.fields) == ["clientId", "consumerGroup"]
        await operator.client.close()


async def test_a_secret_key_is_nowhere_but_in_the_rules_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    (tmp_path / "broker.conf").write_text(f"brokerAccessKey=operator\nbrokerSecretKey={CANARY}-admin\n")
    options = {"brokerAccessKey": "operator", "brokerSecretKey": f"{CANARY}-admin", "haKey": f"{CANARY}-ha"}
    async with guarded(tmp_path, RULES, **options) as talk:
        operator = Caller(talk, "operator")
        for code in talk.broker.handlers:
            fields = {"accessKey": "shop-app", "secretKey": f"{CANARY}-shop", "topic": "orders", "group": "g"}
            for answer in (await operator.ask(code, fields), await talk.ask(code, fields)):
                seen.append(f"{answer!r} {answer.remark} {answer.fields} {answer.body!r}")
        bad = Command(Code.GET_BROKER_CONFIG, {"AccessKey": "operator", "Signature": "x"})
        seen.append(repr(await talk.client.request(talk.address, bad, PATIENCE)))
        file = tmp_path / "conf/plain_acl.yml"
        file.write_text(file.read_text() + f"\n- {{accessKey: x, secretKey: {CANARY}}} ]")
        assert talk.broker.access is not None
        await talk.broker.access.rules.refresh()
        seen.append(repr(talk.broker.access.rules.current))
        seen += [repr(talk.broker.options), repr(ha_options(talk.broker.options))]
        seen += [f"{name}={value}" for name, value in talk.broker.options.printed()]
        seen += [str(talk.broker.access.rules.counters), repr(operator.signer)]
        await operator.client.close()
    seen.append(caplog.text)
    assert [text[:200] for text in seen if CANARY in text] == []
    assert files_with_the_canary(tmp_path) == ["broker.conf", "plain_acl.yml"]


def files_with_the_canary(folder: Path) -> list[str]:
    found = [path for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    return sorted(path.name for path in found)


async def test_what_an_account_creates_is_charged_to_it_from_wherever_it_comes(tmp_path: Path) -> None:
    async with guarded(tmp_path, RULES, autoCreateTopicPerAccountMax=1) as talk:
        first, second, operator = (Caller(talk, name) for name in ("open-app", "open-app", "operator"))
        assert (await first.send("a")).code == 0
        refused = await second.send("b")
        assert refused.code == ResponseCode.TOPIC_NOT_EXIST
        assert "account open-app created as many as one may" in (refused.remark or "")
        assert (await operator.send("b")).code == 0
        for caller in (first, second, operator):
            await caller.client.close()
