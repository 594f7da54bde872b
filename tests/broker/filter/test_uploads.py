"""Filters in WebAssembly at a broker: uploaded, run, listed, removed; a bad one costs its own group alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from ariane.access.signer import Signer
from ariane.env import SystemClock
from ariane.filter.wasm import digest_of
from ariane.protocol.bodies import FilterList
from ariane.protocol.codes import GET_FILTER, GET_FILTER_LIST, REMOVE_FILTER, RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.remoting import Client
from tests.broker.conftest import Starter
from tests.broker.filter.modules import BODY_STARTS_WITH_1, HOSTILE, module
from tests.broker.talk import PATIENCE, Talk, small_broker

UPLOAD = RequestCode.REGISTER_MESSAGE_FILTER_CLASS
SIDE = {"consumerGroup": "consumers", "topic": "orders"}


def upload_fields(code: bytes, group: str = "consumers", topic: str = "orders", **changes: str) -> dict[str, str]:
    crc = str(crc32(code) & 0x7FFFFFFF)
    return {"consumerGroup": group, "topic": topic, "className": "f.wasm", "classCRC": crc,
            "sha256": digest_of(code), **changes}  # fmt: skip


async def upload(talk: Talk, code: bytes, group: str = "consumers", **changes: str) -> Command:
    return await talk.ask(UPLOAD, upload_fields(code, group, **changes), code)


def by(code: bytes, group: str = "consumers") -> dict[str, Any]:
    return {"consumer_group": group, "subscription": digest_of(code), "expression_type": "WASM"}


@pytest.fixture
async def talk(talk_to: Starter) -> Talk:
    """A broker that takes filters, with ten orders whose bodies begin with 0, 1, 0, 1, ..."""
    talk = await talk_to(
        filterUploadEnable=True,
        filterFuelPerMessage=100_000,
        filterMessageMaxMillis=10_000,
        filterGroupMillisPerSecond=1000,
    )
    for n in range(10):
        await talk.send_ok("orders", b"%d" % (n % 2))
    return talk


async def test_uploads_are_refused_unless_the_option_allows_them(talk_to: Starter) -> None:
    talk = await talk_to()
    refused = await upload(talk, BODY_STARTS_WITH_1)
    assert refused.code == ResponseCode.NO_PERMISSION
    assert "filterUploadEnable=true" in (refused.remark or "")


@pytest.mark.slow
async def test_an_uploaded_filter_selects_and_survives_a_restart(tmp_path: Path) -> None:
    options = {"filterUploadEnable": True}
    async with Talk.to(small_broker(tmp_path / "store", **options)) as talk:
        for n in range(10):
            await talk.send_ok("orders", b"%d" % (n % 2), properties="k\x01v\x02")
        assert (await upload(talk, BODY_STARTS_WITH_1)).code == 0
        found = await talk.units("orders", **by(BODY_STARTS_WITH_1))
        assert [unit.queue_offset for unit in found] == [1, 3, 5, 7, 9]
    async with Talk.to(small_broker(tmp_path / "store", **options)) as talk:
        while (answer := await talk.pull("orders", **by(BODY_STARTS_WITH_1))).code == ResponseCode.SYSTEM_BUSY:
            assert "is being compiled" in (answer.remark or "")
        assert answer.code == 0
        found = await talk.units("orders", **by(BODY_STARTS_WITH_1))
        assert [unit.queue_offset for unit in found] == [1, 3, 5, 7, 9]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["endless loop", "memory bomb", "unreachable", "verdict 2"])
async def test_a_hostile_filter_costs_only_its_own_group(talk: Talk, name: str) -> None:
    hostile, reason = HOSTILE[name]
    assert (await upload(talk, BODY_STARTS_WITH_1)).code == 0
    assert (await upload(talk, hostile, "hostile")).code == 0
    for _ in range(3):
        refused = await talk.pull("orders", **by(hostile, "hostile"))
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "the filter of hostile for orders failed at offset 0 of queue 0" in (refused.remark or "")
        assert len(await talk.units("orders", **by(BODY_STARTS_WITH_1))) == 5
        assert len(await talk.units("orders")) == 10
    monitor = talk.broker.monitor.registry
    assert f'ariane_filter_failures_total{{reason="{reason}"}} 3' in monitor.text()


async def test_a_filter_is_listed_shown_and_removed(talk: Talk) -> None:
    assert (await upload(talk, BODY_STARTS_WITH_1, filterServer="true")).code == 0
    (record,) = FilterList.decode((await talk.ask(GET_FILTER_LIST)).body).filters
    assert (record.consumer_group, record.topic, record.name) == ("consumers", "orders", "f.wasm")
    assert (record.sha256, record.bytes) == (digest_of(BODY_STARTS_WITH_1), len(BODY_STARTS_WITH_1))
    assert (await talk.ask(GET_FILTER, SIDE)).body == BODY_STARTS_WITH_1
    files = Path(talk.broker.options.store_path_root_dir) / "config" / "filters"
    assert [file.name for file in files.iterdir()] == [f"{record.sha256}.wasm"]
    assert (await talk.ask(REMOVE_FILTER, SIDE)).code == 0
    assert list(files.iterdir()) == []
    assert (await talk.ask(REMOVE_FILTER, SIDE)).code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert (await talk.ask(GET_FILTER, SIDE)).code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert FilterList.decode((await talk.ask(GET_FILTER_LIST)).body).filters == []


@pytest.mark.slow
async def test_a_removed_or_foreign_filter_is_not_run(talk: Talk) -> None:
    assert (await upload(talk, BODY_STARTS_WITH_1)).code == 0
    assert len(await talk.units("orders", **by(BODY_STARTS_WITH_1))) == 5
    foreign = await talk.pull("orders", **by(BODY_STARTS_WITH_1, "thieves"))
    assert foreign.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert (await talk.ask(REMOVE_FILTER, SIDE)).code == 0
    gone = await talk.pull("orders", **by(BODY_STARTS_WITH_1))
    assert gone.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert "restart the consumer" in (gone.remark or "")


@pytest.mark.parametrize(
    ("code", "changes", "remark"),
    [
        (b"public class Filter {}", {}, "no WebAssembly module"),
        (BODY_STARTS_WITH_1, {"sha256": "0" * 64}, "sha256"),
        (BODY_STARTS_WITH_1, {"classCRC": "1"}, "classCRC"),
        (BODY_STARTS_WITH_1, {"consumerGroup": "../evil"}, "illegal characters"),
        (BODY_STARTS_WITH_1, {"topic": "../evil"}, "no name of a topic"),
        (BODY_STARTS_WITH_1, {"className": "x" * 300}, "255"),
        (BODY_STARTS_WITH_1 + bytes(300_000), {}, "filterModuleMaxBytes"),
    ],
)
async def test_a_malformed_upload_is_refused(talk: Talk, code: bytes, changes: dict[str, str], remark: str) -> None:
    refused = await talk.ask(UPLOAD, {**upload_fields(code), **changes}, code)
    assert refused.code != 0
    assert remark in (refused.remark or "")
    assert FilterList.decode((await talk.ask(GET_FILTER_LIST)).body).filters == []


async def test_a_broker_without_wasmtime_says_what_to_install(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    refused = await upload(talk, BODY_STARTS_WITH_1)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "runs no WebAssembly" in (refused.remark or "")
    assert "pip install 'ariane[wasm]'" in (refused.remark or "")


async def test_a_broker_keeps_only_so_many_filters(talk_to: Starter) -> None:
    talk = await talk_to(filterUploadEnable=True, filterModulesMax=1)
    for code in (BODY_STARTS_WITH_1, module("(i32.const 0)")):  # a group may replace its own
        assert (await upload(talk, code, filterServer="true")).code == 0
    refused = await upload(talk, BODY_STARTS_WITH_1, "others", filterServer="true")
    assert "filterModulesMax" in (refused.remark or "")
    files = Path(talk.broker.options.store_path_root_dir) / "config" / "filters"
    assert len(list(files.iterdir())) == 1


RULES = """
globalWhiteRemoteAddresses: [127.0.0.1]
accounts:
- {accessKey: operator, secretKey: operator-secret, admin: true}
- {accessKey: allowed, secretKey: allowed-secret, topicPerms: [orders=SUB], groupPerms: [consumers=SUB, others=SUB],
   filterGroups: [consumers]}
- {accessKey: readers, secretKey: readers-secret, defaultTopicPerm: PUB|SUB, defaultGroupPerm: PUB|SUB}
"""


@pytest.mark.parametrize(
    ("account", "group", "remark"),
    [
        ("operator", "consumers", ""),
        ("allowed", "consumers", ""),
        ("allowed", "others", "filterGroups of allowed needs others"),
        ("readers", "consumers", "filterGroups of readers needs consumers"),
        (None, "consumers", "No accessKey is configured"),
    ],
)
async def test_only_accounts_with_the_group_in_their_rules_upload(
    tmp_path: Path, account: str | None, group: str, remark: str
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(RULES)
    broker = small_broker(tmp_path / "store", filterUploadEnable=True, aclEnable=True, rocketmqHome=tmp_path)
    async with Talk.to(broker) as talk:
        client = Client(clock=SystemClock(), hooks=() if account is None else (Signer(account, f"{account}-secret"),))
        fields = upload_fields(BODY_STARTS_WITH_1, group, filterServer="true")
        try:
            answer = await client.request(talk.address, Command(UPLOAD, fields, BODY_STARTS_WITH_1), PATIENCE)
            listed = await client.request(talk.address, Command(GET_FILTER_LIST), PATIENCE)
        finally:
            await client.close()
    assert (answer.code == 0) is (remark == ""), answer.remark
    assert remark in (answer.remark or "")
    assert (listed.code == 0) is (account == "operator")
    if account == "operator":
        assert FilterList.decode(listed.body).filters[0].uploaded_by == "operator"
