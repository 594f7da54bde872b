"""Filters and access rules on a slave: those of its master, so that a promotion opens nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ariane.access.signer import Signer
from ariane.broker.server import Broker
from ariane.env import SystemClock
from ariane.filter import Subscription
from ariane.protocol.codes import PROMOTE_BROKER, RequestCode
from ariane.protocol.command import Command
from ariane.remoting import Client
from tests.broker.talk import PATIENCE, send_fields
from tests.replication.brokers import Brokers, copied, ok, until

KEY = "a-shared-key-of-this-pair"
OPERATOR = "- {accessKey: operator, secretKey: operator-12345, admin: true}\n"
OLD = f"accounts:\n{OPERATOR}- {{accessKey: left-team, secretKey: left-12345678, defaultTopicPerm: PUB|SUB}}\n"
NEW = f"# by hand\naccounts:\n{OPERATOR}- {{accessKey: new-team, secretKey: new-123456, topicPerms: [orders=PUB]}}\n"
SIGNED: dict[str, Any] = {"aclEnable": True, "brokerAccessKey": "operator", "brokerSecretKey": "operator-12345"}


def home(folder: Path, rules: str) -> Path:
    (folder / "conf").mkdir(parents=True)
    (folder / "conf/plain_acl.yml").write_text(rules)
    return folder


async def send(broker: Broker, access_key: str, secret_key: str, topic: str) -> Command:
    client = Client(clock=SystemClock(), hooks=(Signer(access_key, secret_key),))
    try:
        request = Command(RequestCode.SEND_MESSAGE_V2, send_fields(topic), b"x")
        return await client.request(broker.address, request, PATIENCE)
    finally:
        await client.close()


async def copying(slave: Broker, ready: Callable[[], object]) -> None:
    """Wait until something is so, with one round of copies after another."""

    def again() -> object:
        slave.metadata.soon()
        return ready()

    await until(again)


async def test_promoted_slave_enforces_the_rules_of_its_master(tmp_path: Path) -> None:
    one, two = home(tmp_path / "one", NEW), home(tmp_path / "two", OLD)
    async with Brokers.in_folder(tmp_path) as brokers:
        master = await brokers.master(rocketmqHome=one, haKey=KEY, **SIGNED)
        slave = await brokers.slave(rocketmqHome=two, haKey=KEY, **SIGNED)
        assert slave.access is not None
        assert master.access is not None
        rules = slave.access.rules
        await until(lambda: "left-team" not in rules.current.accounts)
        assert (two / "conf/plain_acl.yml").read_text() == NEW
        (one / "conf/plain_acl.yml").write_text(NEW.replace("new-123456", "changed-123456"))
        await master.access.rules.refresh()
        slave.metadata.soon()
        await until(lambda: b"changed-123456" in rules.texts()[""])
        ok(await send(master, "new-team", "changed-123456", "orders"))
        await copied(master, slave)
        await brokers.stop("master")
        client = Client(clock=SystemClock(), hooks=(Signer("operator", "operator-12345"),))
        fields = {"brokerName": "pair", "force": "true"}
        ok(await client.request(slave.address, Command(PROMOTE_BROKER, fields), PATIENCE))
        await client.close()
        ok(await send(slave, "new-team", "changed-123456", "orders"))
        for access_key, secret_key, topic in (
            ("left-team", "left-12345678", "orders"),
            ("new-team", "new-123456", "orders"),
            ("new-team", "changed-123456", "secrets"),
        ):
            assert (await send(slave, access_key, secret_key, topic)).code != 0
        await brokers.stop("slave")  # and after a restart
        slave = await brokers.slave(rocketmqHome=two, haKey=KEY, **SIGNED)
        assert (await send(slave, "left-team", "left-12345678", "orders")).code != 0
        ok(await send(slave, "new-team", "changed-123456", "orders"))


async def test_without_a_key_the_slave_keeps_its_own_rules(tmp_path: Path) -> None:
    one, two = home(tmp_path / "one", NEW), home(tmp_path / "two", OLD)
    async with Brokers.in_folder(tmp_path) as brokers:
        await brokers.master(rocketmqHome=one, **SIGNED)
        slave = await brokers.slave(rocketmqHome=two, **SIGNED)
        await until(lambda: slave.from_master.slave is not None and slave.from_master.slave.state.connected)
        rounds = slave.metadata.rounds
        await copying(slave, lambda: slave.metadata.rounds > rounds + 1)
        assert slave.metadata.failure == ""
        assert (two / "conf/plain_acl.yml").read_text() == OLD


async def test_broken_rules_of_the_master_change_nothing_and_are_reported(tmp_path: Path) -> None:
    one, two = home(tmp_path / "one", NEW), home(tmp_path / "two", OLD)
    async with Brokers.in_folder(tmp_path) as brokers:
        master = await brokers.master(rocketmqHome=one, haKey=KEY, **SIGNED)
        assert master.access is not None
        (one / "conf/plain_acl.yml").write_text("accounts: {")
        await master.access.rules.refresh()
        slave = await brokers.slave(rocketmqHome=two, haKey=KEY, **SIGNED)
        await copying(slave, lambda: "broken" in slave.metadata.failure)
        assert (two / "conf/plain_acl.yml").read_text() == OLD


async def test_filters_of_the_master_are_on_the_slave(tmp_path: Path) -> None:
    async with Brokers.in_folder(tmp_path) as brokers:
        master = await brokers.master()
        slave = await brokers.slave()
        slave.filters.register("own", Subscription("orders", "a = 2", "SQL92", 9), 1)
        master.filters.register("own", Subscription("orders", "a = 1", "SQL92", 7), 1)
        master.filters.register("shop", Subscription("orders", "a > 1", "SQL92", 7), 1)
        await copying(slave, lambda: slave.filters.get("orders", "shop"))
        copy = slave.filters.get("orders", "shop")
        assert copy is not None
        assert (copy.expression, copy.client_version) == ("a > 1", 7)
        own = slave.filters.get("orders", "own")
        assert own is not None
        assert own.expression == "a = 2"  # a newer one stays
