"""A name server with access control: nobody hijacks routes, clients ask as ever."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ariane.access.gate import Level
from ariane.access.signer import Signer
from ariane.env import Env, SystemClock
from ariane.namesrv import NameServer
from ariane.namesrv.acl import namesrv_rules
from ariane.namesrv.config import NamesrvOptions
from ariane.protocol.codes import RequestCode as Code
from ariane.protocol.command import Command
from ariane.remoting import Client
from ariane.settings import ConfigError, Host
from tests.access.matrix import is_refused
from tests.broker.talk import PATIENCE, Talk, small_broker

RULES = """
accounts:
- {accessKey: operator, secretKey: 12345678, admin: true}
- {accessKey: cluster-key, secretKey: 12345678}
- {accessKey: shop-app, secretKey: 12345678, defaultTopicPerm: PUB|SUB}
"""
REGISTER = {"brokerName": "evil", "brokerAddr": "6.6.6.6:1", "clusterName": "c", "haServerAddr": "", "brokerId": "0"}


@asynccontextmanager
async def guarded(folder: Path, rules: str = RULES, more: str = "") -> AsyncIterator[NameServer]:
    (folder / "conf").mkdir()
    (folder / "conf/plain_acl.yml").write_text(rules)
    text = f"listenPort=0\nbindAddress=127.0.0.1\naclEnable=true\nrocketmqHome={folder}\nbrokerAccessKeys=cluster-key"
    text = f"{text}\n{more}"
    server = NameServer(NamesrvOptions.load(text, host=Host(home=str(folder))), Env())
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def ask(server: NameServer, code: int, key: str = "", fields: dict[str, str] | None = None) -> Command:
    hooks = (Signer(key, "12345678"),) if key else ()
    client = Client(clock=SystemClock(), hooks=hooks)
    try:
        return await client.request(server.address, Command(code, dict(fields or {})), PATIENCE)
    finally:
        await client.close()


async def test_each_request_to_a_name_server_is_let_in_or_refused_as_its_rule_says(tmp_path: Path) -> None:
    who = {
        Level.OPEN: {"", "shop-app", "cluster-key", "operator"},
        Level.TRUSTED: {"cluster-key", "operator"},
        Level.ADMIN: {"operator"},
    }
    async with guarded(tmp_path) as server:
        for code, rule in namesrv_rules().items():
            for key in ("", "shop-app", "cluster-key", "operator"):
                assert is_refused(await ask(server, code, key)) == (key not in who[rule.level]), (code, key)
        assert is_refused(await ask(server, 999))
        assert (await ask(server, 999, "shop-app")).code == 3


async def test_a_stranger_cannot_register_a_broker_and_ours_registers_with_its_key(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        assert is_refused(await ask(server, Code.REGISTER_BROKER, "", REGISTER))
        assert is_refused(await ask(server, Code.REGISTER_BROKER, "shop-app", REGISTER))
        keys = {"brokerAccessKey": "cluster-key", "brokerSecretKey": "12345678", "namesrvAddr": server.address}
        async with Talk.to(small_broker(tmp_path / "store", **keys)):
            info = await ask(server, Code.GET_BROKER_CLUSTER_INFO)
            assert b"broker-a" in info.body
            assert b"evil" not in info.body
        assert b"broker-a" not in (await ask(server, Code.GET_BROKER_CLUSTER_INFO)).body  # it could unregister


async def test_a_recorded_registration_cannot_be_sent_again_nor_as_another_request(tmp_path: Path) -> None:
    async with guarded(tmp_path, more="aclReplayWindowSeconds=600") as server:
        client = Client(clock=SystemClock())
        recorded = Command(Code.REGISTER_BROKER, dict(REGISTER))
        Signer("cluster-key", "12345678", clock=SystemClock()).before_request("", recorded)
        answers = [
            await client.request(server.address, Command(code, dict(recorded.fields)), PATIENCE)
            for code in (Code.UNREGISTER_BROKER, Code.REGISTER_BROKER, Code.REGISTER_BROKER, Code.UNREGISTER_BROKER)
        ]
        await client.close()
        assert [is_refused(answer) for answer in answers] == [True, False, True, True]
        assert is_refused(await ask(server, Code.UNREGISTER_BROKER, "cluster-key", REGISTER))  # no stamp
        keys = {"brokerAccessKey": "cluster-key", "brokerSecretKey": "12345678", "namesrvAddr": server.address}
        async with Talk.to(small_broker(tmp_path / "store", **keys)):
            assert b"broker-a" in (await ask(server, Code.GET_BROKER_CLUSTER_INFO)).body


async def test_an_address_of_the_white_list_may_register_brokers_of_apaches_and_administer_nothing(
    tmp_path: Path,
) -> None:
    async with guarded(tmp_path, f"globalWhiteRemoteAddresses: [127.0.0.1]\n{RULES}") as server:
        assert (await ask(server, Code.REGISTER_BROKER, "", REGISTER)).code == 0
        assert is_refused(await ask(server, Code.PUT_KV_CONFIG, "", {"namespace": "n", "key": "k", "value": "v"}))


def test_access_control_without_rules_refuses_the_start(tmp_path: Path) -> None:
    text = f"listenPort=0\naclEnable=true\nrocketmqHome={tmp_path}"
    with pytest.raises(ConfigError, match="there is no rules file"):
        NameServer(NamesrvOptions.load(text), Env())
    with pytest.raises(ConfigError, match="rocketmqHome"):
        NameServer(NamesrvOptions.load("listenPort=0\naclEnable=true\nrocketmqHome="), Env())
