"""Access rules at brokers that have them on, ours and Apache's: no secret leaves, and nobody locks itself out."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ariane.client.options import ClientOptions
from ariane.console.access import Account, check_white, having, may, read_access
from ariane.console.change import Stale
from ariane.console.rights import Role
from ariane.errors import ArianeError, ClientError, ConfigError
from tests.cluster import running_cluster
from tests.console.test_changes import Desk
from tests.peers.build import Build
from tests.peers.servers import ApacheBroker, ApacheNamesrv

SECRET = "a secret of the tests"
RULES = f"""
globalWhiteRemoteAddresses: [10.9.9.*]
accounts:
- {{accessKey: console-key, secretKey: {SECRET}, admin: true}}
- {{accessKey: shop-key, secretKey: {SECRET} two, defaultTopicPerm: SUB, defaultGroupPerm: SUB,
   topicPerms: [orders=PUB, secretive=DENY], groupPerms: [billing=SUB]}}
"""
SHOP = Account("shop-key", False, "SUB", "SUB", ("orders=PUB", "secretive=DENY"), ("billing=SUB",))


class Ruled:
    """A cluster with access control on, and where its rules are."""

    def __init__(self, namesrv: str, address: str, file: Path) -> None:
        self.namesrv, self.address, self.file = namesrv, address, file

    def account(self, key: str) -> dict[str, object] | None:
        found = yaml.safe_load(self.file.read_text())["accounts"]
        return next((one for one in found if one["accessKey"] == key), None)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    folder = tmp_path_factory.mktemp("ruled")
    (folder / "conf").mkdir()
    (folder / "conf/plain_acl.yml").write_text(RULES)
    with running_cluster(folder) as cluster:
        cluster.start_broker(rocketmqHome=folder, aclEnable=True)
        yield Ruled(cluster.namesrv, cluster.broker_address, folder / "conf/plain_acl.yml")


@pytest.fixture(scope="module")
def apaches(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    with ExitStack() as stack:
        namesrv = stack.enter_context(ApacheNamesrv(peers, tmp_path_factory.mktemp("ruled-namesrv")))
        home = tmp_path_factory.mktemp("ruled-broker")
        started = ApacheBroker(
            peers, home, namesrv.address, config={"aclEnable": "true"}, files={"conf/plain_acl.yml": RULES}
        )
        broker = stack.enter_context(started)
        yield Ruled(namesrv.address, broker.address, home / "conf/plain_acl.yml")


@pytest.fixture
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    side: Ruled = request.getfixturevalue(request.param)
    keys = ClientOptions(name_servers=side.namesrv, access_key="console-key", secret_key=SECRET)
    found = Desk(keys, tmp_path)
    found.ruled = side
    await found.cluster.start()
    yield found
    await found.cluster.stop()


BOTH = pytest.mark.parametrize("desk", ["ours", pytest.param("apaches", marks=pytest.mark.slow)], indirect=True)


@BOTH
async def test_accounts_are_changed_with_a_preview_and_without_a_trace_of_secrets(desk: Desk) -> None:
    who, side = desk.visitor(Role.ADMIN), desk.ruled
    brokers = await read_access(desk.cluster)
    assert brokers[0].accounts["shop-key"] == SHOP
    assert SECRET not in repr(brokers)
    seen, where = having(brokers, "shop-key"), [side.address]
    # Emptied lists, a changed default, and the secret that it had.
    changed = replace(SHOP, default_topic="DENY", topics=("orders=PUB|SUB",), groups=())
    await desk.door.update_account(who, desk.cluster, changed, None, seen, where)
    assert having(await read_access(desk.cluster), "shop-key") == {side.address: changed}
    kept = side.account("shop-key")
    assert kept is not None
    assert kept["secretKey"] == f"{SECRET} two"
    with pytest.raises(Stale, match="changed meanwhile"):  # somebody who still sees the old one
        await desk.door.update_account(who, desk.cluster, SHOP, None, seen, where)
    # A new account, with a secret that only the brokers keep.
    fresh = Account("fresh-key", topics=("orders=SUB",))
    await desk.door.update_account(who, desk.cluster, fresh, "another secret", {}, where)
    made = side.account("fresh-key")
    assert made is not None
    assert made["secretKey"] == "another secret"
    await desk.door.delete_account(who, desk.cluster, "fresh-key", {side.address: fresh})
    assert side.account("fresh-key") is None
    log = (desk.folder / "audit.jsonl").read_text()
    assert SECRET not in log
    assert "another secret" not in log
    entries = [json.loads(line) for line in log.splitlines()]
    assert [one["what"] for one in entries] == ["access.account"] * 3 + ["access.delete"]
    assert entries[0]["before"][side.address]["groups"] == ["billing=SUB"]
    assert entries[0]["after"]["secret"] == "kept"
    # Back to what the next test expects.
    await desk.door.update_account(who, desk.cluster, SHOP, None, {side.address: changed}, where)


@BOTH
async def test_nobody_locks_the_console_or_the_last_administrator_out(desk: Desk) -> None:
    who, side = desk.visitor(Role.ADMIN), desk.ruled
    brokers = await read_access(desk.cluster)
    own = having(brokers, "console-key")
    with pytest.raises(ClientError, match="the console itself"):
        await desk.door.delete_account(who, desk.cluster, "console-key", own)
    for weaker in (Account("console-key"), Account("console-key", admin=True, topics=("orders=PUB",))):
        with pytest.raises(ClientError, match="the console itself"):
            await desk.door.update_account(who, desk.cluster, weaker, None, own, [side.address])
    for bad in (
        replace(SHOP, topics=("orders",)), replace(SHOP, topics=("orders=ALL",)), replace(SHOP, white="10.0.0.0/8"),
        Account("short"), replace(SHOP, topics=("a=PUB,b=PUB",)),
    ):  # fmt: skip
        with pytest.raises(ArianeError):
            await desk.door.update_account(
                who, desk.cluster, bad, None, having(brokers, bad.access_key), [side.address]
            )
    with pytest.raises(ConfigError):  # Apache's broker would take it, and not start again
        await desk.door.set_white(who, desk.cluster, side.address, ("bogus",), ("10.9.9.*",))
    assert (await read_access(desk.cluster))[0].accounts == brokers[0].accounts


@BOTH
async def test_white_addresses_are_set_and_stale_ones_refused(desk: Desk) -> None:
    who, side = desk.visitor(Role.ADMIN), desk.ruled
    now = (await read_access(desk.cluster))[0].white
    await desk.door.set_white(who, desk.cluster, side.address, ("10.9.9.*", "10.1.1.1"), now)
    assert yaml.safe_load(side.file.read_text())["globalWhiteRemoteAddresses"] == ["10.9.9.*", "10.1.1.1"]
    with pytest.raises(Stale):
        await desk.door.set_white(who, desk.cluster, side.address, (), ("1.1.1.1",))


@pytest.mark.parametrize("desk", ["ours"], indirect=True)
async def test_may_a_do_x(desk: Desk) -> None:
    access = (await read_access(desk.cluster))[0]
    assert may(access, "shop-key", "PUB", "orders", "", None) == (True, "its own entry says orders=PUB")
    assert may(access, "shop-key", "SUB", "orders", "", None)[0] is False
    assert may(access, "shop-key", "SUB", "", "billing", None)[0] is True
    assert may(access, "shop-key", "SUB", "others", "", None) == (
        True, "no entry names the topic, and defaultTopicPerm is SUB",
    )  # fmt: skip
    assert may(access, "console-key", "PUB", "orders", "", None)[0] is True
    assert may(access, "nobody-key", "PUB", "orders", "", None)[0] is False
    assert "white list" in may(access, "nobody-key", "PUB", "orders", "", bytes([10, 9, 9, 1]))[1]


def test_addresses_that_are_none_are_refused() -> None:
    check_white(("10.1.2.3", "10.1.*.*"))
    with pytest.raises(ConfigError):
        check_white(("10.0.0.0/8",))
