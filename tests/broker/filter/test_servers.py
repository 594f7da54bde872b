"""Filter servers at a broker: registered, told to name servers, forgotten; and who may pull through them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane.access.signer import Signer
from ariane.env import Env, ManualClock, SystemClock
from ariane.errors import ConfigError, ProtocolError
from ariane.filterserver import FilterServer, FilterServerOptions
from ariane.filterserver.forwarding import units
from ariane.protocol.bodies import FilterList
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers.consume import CLASS_FILTER, SUBSCRIPTION
from ariane.protocol.units import decode_units
from ariane.remoting import Client
from tests.broker.filter.modules import BODY_STARTS_WITH_1
from tests.broker.filter.test_uploads import upload
from tests.broker.talk import PATIENCE, Talk, pull_fields, small_broker

REGISTER = RequestCode.REGISTER_FILTER_SERVER


def beside(talk: Talk, **options: object) -> FilterServer:
    values = {"connectWhichBroker": talk.address, "filterServerIP": "127.0.0.1", "bindAddress": "127.0.0.1", **options}
    return FilterServer(FilterServerOptions.load("\n".join(f"{k} = {v}" for k, v in values.items())), Env())


async def test_a_filter_server_registers_as_in_rocketmq(talk: Talk) -> None:
    answer = await talk.ask(REGISTER, {"filterServerAddr": "127.0.0.1:7777"})
    assert (answer.code, answer.fields) == (0, {"brokerName": "broker-a", "brokerId": "0"})
    assert talk.broker.filter_servers.addresses() == ["127.0.0.1:7777"]


@pytest.mark.parametrize("address", ["", "no port", "host:", ":1", "host:x", "h\x00st:1", "x" * 300 + ":1"])
async def test_a_wrong_address_is_refused(talk: Talk, address: str) -> None:
    assert (await talk.ask(REGISTER, {"filterServerAddr": address})).code == ResponseCode.SYSTEM_ERROR
    assert talk.broker.filter_servers.addresses() == []


async def test_a_filter_server_whose_connection_closes_is_forgotten_at_once(talk: Talk) -> None:
    async with Talk.beside(talk.broker) as other:
        await other.ask(REGISTER, {"filterServerAddr": "127.0.0.1:7777"})
        await talk.ask(REGISTER, {"filterServerAddr": "127.0.0.1:8888"})
    while talk.broker.filter_servers.addresses() != ["127.0.0.1:8888"]:
        await talk.ask(RequestCode.GET_BROKER_RUNTIME_INFO)


async def test_a_silent_filter_server_is_forgotten(tmp_path: Path) -> None:
    clock = ManualClock()
    async with Talk.to(small_broker(tmp_path / "store", env=Env(clock=clock))) as talk:
        await talk.ask(REGISTER, {"filterServerAddr": "127.0.0.1:7777"})
        await talk.pass_time(clock, 25)
        await talk.ask(REGISTER, {"filterServerAddr": "127.0.0.1:7777"})
        await talk.pass_time(clock, 25)
        assert talk.broker.filter_servers.addresses() == ["127.0.0.1:7777"]
        await talk.pass_time(clock, 20)
        assert talk.broker.filter_servers.addresses() == []


async def test_the_answer_lists_the_modules_for_filter_servers(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path / "store", filterUploadEnable=True)) as talk:
        assert (await upload(talk, BODY_STARTS_WITH_1, "served", filterServer="true")).code == 0
        answer = await talk.ask(REGISTER, {"filterServerAddr": "127.0.0.1:7777"})
        assert [one.consumer_group for one in FilterList.decode(answer.body).filters] == ["served"]


RULES = """
%s
accounts:
- {accessKey: operator, secretKey: operator-secret, admin: true}
- {accessKey: consumer, secretKey: consumer-secret, topicPerms: [orders=SUB], groupPerms: [consumers=SUB]}
- {accessKey: stranger, secretKey: stranger-secret, topicPerms: [other=SUB], groupPerms: [consumers=SUB]}
"""
KEYS = {"brokerAccessKey": "operator", "brokerSecretKey": "operator-secret"}


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Talk]:
    """A broker with access control and three messages, put in past it."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(RULES % "")
    async with Talk.to(small_broker(tmp_path / "store")) as talk:
        for n in range(3):
            await talk.send_ok("orders", b'{"n": %d}' % n)
    async with Talk.to(small_broker(tmp_path / "store", aclEnable=True, rocketmqHome=tmp_path)) as talk:
        yield talk


async def pull_through(server: FilterServer, account: str | None, **changes: object) -> Command:
    flags = {"sys_flag": SUBSCRIPTION | CLASS_FILTER, "subscription": "body.n > 0", "expression_type": "EXPRESSION"}
    client = Client(clock=SystemClock(), hooks=() if account is None else (Signer(account, f"{account}-secret"),))
    try:
        fields = pull_fields("orders", **{**flags, **changes})
        return await client.request(server.address, Command(RequestCode.PULL_MESSAGE, fields), PATIENCE)
    finally:
        await client.close()


async def test_the_broker_decides_who_may_pull_through_a_filter_server(guarded: Talk) -> None:
    server = beside(guarded, **KEYS)
    await server.start()
    try:
        found = await pull_through(server, "consumer")
        assert [unit.queue_offset for unit in decode_units(found.body)] == [1, 2]
        for account, remark in (("stranger", "topic:orders"), (None, "No accessKey"), ("nobodys", "No acl config")):
            refused = await pull_through(server, account)
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert remark in (refused.remark or ""), account
    finally:
        await server.stop()


@pytest.mark.parametrize("keys", [{}, {"brokerAccessKey": "consumer", "brokerSecretKey": "consumer-secret"}])
async def test_a_filter_server_that_the_broker_does_not_admit_forwards_nothing(
    guarded: Talk, keys: dict[str, str]
) -> None:
    server = beside(guarded, **keys)
    await server.start()
    try:
        refused = await pull_through(server, "consumer")
    finally:
        await server.stop()
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert "not registered" in (refused.remark or "")
    assert guarded.broker.filter_servers.addresses() == []


async def test_a_white_listed_filter_server_is_refused(tmp_path: Path) -> None:
    """Everyone who pulls through it would need no account."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(RULES % "globalWhiteRemoteAddresses: [127.0.0.1]")
    async with Talk.to(small_broker(tmp_path / "store", aclEnable=True, rocketmqHome=tmp_path)) as talk:
        server = beside(talk, **KEYS)
        await server.start()
        await server.stop()
        assert not server.forwarding.registered
        assert "white list" in server._refused


def test_a_torn_answer_of_a_broker_is_an_error_and_not_a_crash() -> None:

    for body in (b"\0\0", b"\0\0\0\x08\0", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x04\0\0\0\x09"):
        with pytest.raises(ProtocolError, match="no whole message"):
            list(units(body))


def test_half_a_key_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="go together"):
        FilterServerOptions.load("brokerAccessKey = operator")
