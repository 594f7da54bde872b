"""Nonsense to every request code: an error each time, nothing else happens, and the broker goes on."""

import json
from pathlib import Path

import pytest

from ariane.env import Env
from ariane.protocol.codes import GET_FILTER_LIST, RequestCode, ResponseCode
from ariane.protocol.command import Command
from tests.broker.talk import PATIENCE, Talk, small_broker

# Every field that any request has, by the kind of its value.
TEXTS = (
    "topic", "consumerGroup", "producerGroup", "group", "groupName", "a", "b", "c", "i", "defaultTopic", "properties",
    "key", "subscription", "expressionType", "clientID", "clientId", "msgId", "originMsgId", "originTopic", "srcGroup",
    "destGroup", "compareGroup", "filterGroups", "statsName", "statsKey", "topicFilterType", "transactionId",
    "accessKey", "secretKey", "globalWhiteAddrs", "brokerName", "clientAddr", "n",
)  # fmt: skip
NUMBERS = (
    "queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "suspendTimeoutMillis", "subVersion", "d", "e",
    "f", "g", "h", "j", "l", "defaultTopicQueueNums", "bornTimestamp", "flag", "reconsumeTimes", "timestamp", "offset",
    "maxNum", "beginTimestamp", "endTimestamp", "delayLevel", "tranStateTableOffset", "commitLogOffset",
    "commitOrRollback", "readQueueNums", "writeQueueNums", "perm", "topicSysFlag", "index", "count",
    "maxReconsumeTimes",
)  # fmt: skip
FLAGS = ("k", "m", "unitMode", "batch", "order", "isForce", "isOrder", "offline", "jstackEnable", "removeOffset")

# Requests that need nothing, and so are answered with what they ask for.
ANY_INPUT = {
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_BROKER_CONFIG,
    RequestCode.UPDATE_BROKER_CONFIG,  # nothing is changed
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.GET_ALL_PRODUCER_INFO,
    GET_FILTER_LIST,
}


# Requests whose header has a number, so that text in its place must be refused.
NEED_NUMBERS = {
    *(10, 11, 12, 14, 15, 17, 29, 30, 31, 32, 33, 36, 37, 222, 310, 320, 321, 324, 325),
}


def fields(text: str, number: str, flag: str = "false") -> dict[str, str]:
    return {**dict.fromkeys(TEXTS, text), **dict.fromkeys(NUMBERS, number), **dict.fromkeys(FLAGS, flag)}


NO_HEADER: dict[str, str] = {}
WRONG_TYPES = fields("orders", "not-a-number", "perhaps")
INPUTS = {
    "no header": NO_HEADER,
    "wrong types": WRONG_TYPES,
    "unknown names": fields("nobody-knows-this", "0"),
    "huge numbers": fields("orders", str(1 << 80)),
    "largest numbers": fields("orders", str((1 << 31) - 1)),
    "negative numbers": fields("orders", "-1"),
    "most negative numbers": fields("orders", str(-(1 << 63))),
    "path-like names": fields("../../../../tmp/evil", "0"),
    "absolute paths": fields("/etc/passwd", "1"),
    "blank names": fields(" ", "0"),
    "long names": fields("x" * 5000, "0"),
    "control characters": fields("a\x00b\x01c\x02d\n", "0"),
    "not ASCII": fields("日本語", "٣"),
}
BODIES = {
    "no body": b"",
    "not JSON": b"\x00\xff\xfe not json",
    "another shape": b"[1, 2, 3]",
    "wrong members": json.dumps({"clientID": 5, "groupName": {"a": 1}, "consumerDataSet": "x", "mqSet": 7}).encode(),
    "deep": b"[" * 5000,
    "path-like names": json.dumps(
        {
            "groupName": "../evil",
            "clientID": "c",
            "clientId": "c",
            "consumerGroup": "../evil",
            "mqSet": [{"topic": "../evil", "brokerName": "b", "queueId": -1}],
            "consumerDataSet": [{"groupName": "../evil", "subscriptionDataSet": []}],
        }
    ).encode(),
}


def codes(talk: Talk) -> list[int]:
    return sorted(talk.broker.handlers)


async def ask(talk: Talk, code: int, header: dict[str, str], body: bytes) -> Command:
    return await talk.client.request(talk.address, Command(code, dict(header), body), PATIENCE)


@pytest.mark.parametrize("kind", INPUTS)
async def test_every_code_answers_every_header(talk: Talk, kind: str, tmp_path: Path) -> None:
    before = outside(tmp_path)
    for code in codes(talk):
        answer = await ask(talk, code, INPUTS[kind], b"")
        assert answer.is_response, code
        if kind == "no header" and code not in ANY_INPUT:
            assert answer.code != 0, code
        if kind == "wrong types" and code in NEED_NUMBERS:
            assert answer.code == ResponseCode.SYSTEM_ERROR, code
    await still_works(talk)
    assert outside(tmp_path) == before


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("header", ["no header", "path-like names"])
async def test_every_code_answers_every_body(talk: Talk, header: str, body: str, tmp_path: Path) -> None:
    before = outside(tmp_path)
    for code in codes(talk):
        answer = await ask(talk, code, INPUTS[header], BODIES[body])
        assert answer.is_response, code
    await still_works(talk)
    assert outside(tmp_path) == before


def outside(tmp_path: Path) -> set[Path]:
    """Every file beside the store."""
    return {p for p in tmp_path.rglob("*") if "store" not in p.relative_to(tmp_path).parts[:1]}


async def still_works(talk: Talk) -> None:
    permission = talk.broker.options.broker_permission
    assert permission == 6
    await talk.send_ok("still-works", b"yes")
    assert [u.body for u in await talk.units("still-works")] == [b"yes"]


async def test_an_unknown_code_is_not_supported(talk: Talk) -> None:
    for code in (0, -1, 9, 999, 30_000):
        answer = await ask(talk, code, {}, b"")
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == f" request type {code} not supported"


async def test_no_name_leaves_the_store_folder(tmp_path: Path) -> None:
    store = tmp_path / "deep" / "store"
    async with Talk.to(small_broker(store, env=Env())) as talk:
        for topic in ("../../evil", "..", ".", "/evil", "a/../../evil", "con\x00", "%RETRY%../evil"):
            assert (await talk.send(topic)).code != 0
            assert (await talk.heartbeat(topic, {topic: "*"})).code != 0
            fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1"}
            created = await talk.ask(17, {**fields, "perm": "6", "topicFilterType": "SINGLE_TAG"})
            assert created.code != 0
    assert names_below(tmp_path, levels=2) == {"deep", "store"}
    assert not [name for name in names_below(tmp_path, levels=9) if "evil" in name]


def names_below(folder: Path, levels: int) -> set[str]:
    return {p.name for p in folder.rglob("*") if len(p.relative_to(folder).parts) <= levels}


@pytest.mark.parametrize("depth", [60, 65, 300, 900, 1500, 20_000])
@pytest.mark.parametrize("shape", ["[%s]", '{"a":%s}', '{"clientID":"c","consumerDataSet":%s}'])
async def test_a_deeply_nested_body_is_answered_and_costs_a_line_of_log(
    talk: Talk, shape: str, depth: int, caplog: pytest.LogCaptureFixture
) -> None:
    for nested in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        for code in codes(talk):
            caplog.clear()
            answer = await ask(talk, code, NO_HEADER, (shape % nested).encode())
            assert answer.is_response, code
            assert len(caplog.records) <= 1, code
            assert not any(record.exc_info for record in caplog.records), code
    await still_works(talk)


@pytest.mark.parametrize("body", [rb"deleteWhen=\ud800", rb"\udfff=1", rb"\ud83d\ud83d", rb"deleteWhen=04\ude00\ud83d"])
async def test_half_a_surrogate_pair_in_the_configuration_is_refused(
    talk: Talk, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = talk.broker.options
    answer = await ask(talk, RequestCode.UPDATE_BROKER_CONFIG, NO_HEADER, body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "surrogate pair" in (answer.remark or "")
    assert talk.broker.options is before
    assert not any(record.exc_info for record in caplog.records)
    await still_works(talk)
