"""Beside Apache's broker with the same rules file: never looser, and the same answers to honest clients."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ariane import Message, aio
from ariane.env import SystemClock
from ariane.errors import AccessDenied, ArianeError
from ariane.message import MessageQueue
from ariane.protocol.codes import RequestCode as Code
from ariane.protocol.command import BINARY, JSON, Command
from ariane.protocol.ids import parse_offset_id
from ariane.remoting import Client
from tests.access.document import OWN
from tests.access.matrix import CREDENTIALS, GROUP, RULES, SECRET, TOPIC, Credentials, is_refused, requests
from tests.broker.talk import PATIENCE, send_fields
from tests.cluster import Cluster, LoopThread
from tests.peers import ApacheBroker, ApacheNamesrv, Build, Driver, PeerError, unique

ADMIN = CREDENTIALS[-1]
KEYS = {"access_key": "admin-key", "secret_key": SECRET}


@dataclass(frozen=True)
class Site:
    """One broker with the rules of the matrix."""

    namesrv: str
    broker: str


@pytest.fixture(scope="module")
def apache(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Apache's name server and broker."""
    with ExitStack() as stack:
        namesrv = stack.enter_context(ApacheNamesrv(peers, tmp_path_factory.mktemp("acl-namesrv")))
        home = tmp_path_factory.mktemp("acl-broker")
        files = {"conf/plain_acl.yml": RULES}
        config = {"aclEnable": "true", "traceTopicEnable": "true"}
        broker = ApacheBroker(peers, home, namesrv.address, config=config, files=files)
        yield Site(namesrv.address, stack.enter_context(broker).address)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Ours."""
    folder = tmp_path_factory.mktemp("acl-ours")
    (folder / "conf").mkdir()
    (folder / "conf/plain_acl.yml").write_text(RULES)
    loop = LoopThread()
    cluster = Cluster(folder, loop)
    try:
        cluster.start_broker(rocketmqHome=folder, aclEnable=True, traceTopicEnable=True)
        yield Site(cluster.namesrv, cluster.broker_address)
    finally:
        cluster.stop()
        loop.close()


@asynccontextmanager
async def raw() -> AsyncIterator[Client]:
    client = Client(clock=SystemClock())
    try:
        yield client
    finally:
        await client.close()


async def place_of_a_message(client: Client, site: Site) -> int:
    """Where a message of TOPIC is in the log of a broker."""
    command = ADMIN.sign(Command(Code.SEND_MESSAGE_V2, send_fields(TOPIC), b"x"))
    answer = await client.request(site.broker, command, PATIENCE)
    assert answer.code == 0, answer
    return parse_offset_id(answer.fields["msgId"])[1]


NOT_OF_APACHE = {351, *OWN}


@pytest.mark.parametrize("form", ["plain", "binary header"])
async def test_nothing_that_apache_refuses_is_let_in(apache: Site, ours: Site, form: str) -> None:
    async with raw() as client:
        makers = [requests(await place_of_a_message(client, site)) for site in (apache, ours)]
        looser: list[str] = []
        refused = 0
        for code in makers[0]:
            if code in NOT_OF_APACHE:
                continue
            for credentials in CREDENTIALS:
                answers = [
                    await client.request(site.broker, _signed(make[code](), credentials, form), PATIENCE)
                    for site, make in zip((apache, ours), makers, strict=True)
                ]
                by_apache, by_us = map(is_refused, answers)
                refused += by_apache
                if by_apache and not by_us:
                    looser.append(f"{code} with {credentials.name}: {answers[0].remark}")
        assert looser == []
        assert refused > 300  # Apache's access control was on


def _signed(command: Command, credentials: Credentials, form: str) -> Command:
    command.serialization = BINARY if form == "binary header" else JSON
    return credentials.sign(command)


REMARKS = [
    (Credentials("", None), Code.GET_BROKER_RUNTIME_INFO),
    (Credentials("", "nobodys-key"), Code.GET_BROKER_RUNTIME_INFO),
    (Credentials("", "admin-key", "other-secret"), Code.GET_BROKER_RUNTIME_INFO),
    (Credentials("", "pub-key"), Code.UPDATE_AND_CREATE_TOPIC),
    (Credentials("", "sub-key"), Code.SEND_MESSAGE_V2),
    (Credentials("", "pub-key"), Code.GET_CONSUMER_LIST_BY_GROUP),
]


async def test_refusals_have_the_code_and_the_words_of_apaches(apache: Site, ours: Site) -> None:
    async with raw() as client:
        for credentials, code in REMARKS:
            theirs, mine = [
                await client.request(site.broker, credentials.sign(requests(0)[code]()), PATIENCE)
                for site in (apache, ours)
            ]
            assert theirs.code == mine.code
            words = (theirs.remark or "").partition(", org.apache")[0]
            assert words
            assert (mine.remark or "").startswith(words)


# Through the Python client: identities and what they try.

IDENTITIES = {
    "nobody": {},
    "unknown": {"access_key": "nobodys-key", "secret_key": SECRET},
    "wrong secret": {"access_key": "admin-key", "secret_key": "other-secret"},
    "denied": {"access_key": "denied-key", "secret_key": SECRET},
    "PUB": {"access_key": "pub-key", "secret_key": SECRET},
    "SUB": {"access_key": "sub-key", "secret_key": SECRET},
    "group PUB": {"access_key": "group-pub-key", "secret_key": SECRET},
    "administrator": KEYS,
}


async def _send(site: Site, keys: dict[str, str], topic: str) -> None:
    async with aio.Producer(unique("p"), name_servers=site.namesrv, **keys) as producer:
        await producer.send(Message(topic, b"x"))


async def _pull(site: Site, keys: dict[str, str], group: str) -> None:
    async with aio.PullClient(group, name_servers=site.namesrv, **keys) as puller:
        [queue, *_] = await puller.queues(TOPIC)
        await puller.pull(queue, 0)


async def _commit(site: Site, keys: dict[str, str]) -> None:
    async with aio.PullClient(GROUP, name_servers=site.namesrv, **keys) as puller:
        [queue, *_] = await puller.queues(TOPIC)
        await puller.commit(MessageQueue(TOPIC, queue.broker_name, 0), 0)


async def _create(site: Site, keys: dict[str, str]) -> None:
    async with aio.Admin(name_servers=site.namesrv, **keys) as admin:
        await admin.create_topic(unique("made"), queues=1)


async def _query(site: Site, keys: dict[str, str]) -> None:
    async with aio.Admin(name_servers=site.namesrv, **keys) as admin:
        await admin.query_messages(TOPIC, "no-such-key")


OPERATIONS: dict[str, Callable[[Site, dict[str, str]], Awaitable[None]]] = {
    "send": lambda site, keys: _send(site, keys, TOPIC),
    "send to the trace topic": lambda site, keys: _send(site, keys, "RMQ_SYS_TRACE_TOPIC"),
    "pull as the group": lambda site, keys: _pull(site, keys, GROUP),
    "pull as another group": lambda site, keys: _pull(site, keys, "strangers"),
    "commit an offset": _commit,
    "create a topic": _create,
    "query by key": _query,
}


async def _outcome(operation: Awaitable[None]) -> str:
    try:
        await operation
    except AccessDenied:
        return "denied"
    except ArianeError as error:
        return f"failed: {type(error).__name__}"
    return "done"


async def test_the_python_client_gets_the_same_answers_of_both(apache: Site, ours: Site) -> None:
    async with raw() as client:
        for site in (apache, ours):
            await place_of_a_message(client, site)
    for site in (apache, ours):  # the route of a new topic appears a moment later
        async with asyncio.timeout(PATIENCE), aio.PullClient(GROUP, name_servers=site.namesrv, **KEYS) as puller:
            while True:
                try:
                    await puller.queues(TOPIC)
                    await puller.queues("RMQ_SYS_TRACE_TOPIC")
                    break
                except ArianeError:
                    await asyncio.sleep(0.2)
    answers: dict[str, dict[str, str]] = {}
    for who, keys in IDENTITIES.items():
        for what, operation in OPERATIONS.items():
            outcomes = await asyncio.gather(*(_outcome(operation(site, keys)) for site in (apache, ours)))
            answers[f"{who}: {what}"] = dict(zip(("apache", "ours"), outcomes, strict=True))
    assert len(answers) >= 40
    assert {key: both for key, both in answers.items() if both["apache"] != both["ours"]} == {}
    assert sum(both["ours"] == "denied" for both in answers.values()) > 20
    assert sum(both["ours"] == "done" for both in answers.values()) > 8


# Apache's client and mqadmin against ours.


def test_apaches_java_client_with_keys_works_with_ours(ours: Site, java: Driver) -> None:
    keys = {"access_key": "pub-key", "secret_key": SECRET}
    with java.producer(ours.namesrv, **keys) as producer:
        assert producer.send(TOPIC, "signed").status == "SEND_OK"
        with pytest.raises(PeerError, match="No default permission for topic:elsewhere"):
            producer.send("elsewhere", "x")
    reader = {"access_key": "sub-key", "secret_key": SECRET}
    first = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}
    with java.push_consumer(ours.namesrv, TOPIC, GROUP, **first, **reader) as consumer:
        assert consumer.await_messages(1)
    wrong = {"access_key": "pub-key", "secret_key": "other-secret"}
    with (
        java.producer(ours.namesrv, **wrong) as stranger,
        pytest.raises(PeerError, match="Check signature failed for accessKey=pub-key"),
    ):
        stranger.send(TOPIC, "x")
    with java.producer(ours.namesrv) as stranger, pytest.raises(PeerError, match="No accessKey is configured"):
        stranger.send(TOPIC, "x")


def test_mqadmin_with_keys_administers_the_rules_of_ours(ours: Site, java: Driver, tmp_path: Path) -> None:
    def mqadmin(*words: str, **keys: str) -> str:
        return java.mqadmin(*words, "-n", ours.namesrv, **(keys or KEYS))

    assert "success" in mqadmin("updateTopic", "-b", ours.broker, "-t", unique("made"))
    denied = mqadmin("updateTopic", "-b", ours.broker, "-t", "x", access_key="pub-key", secret_key=SECRET)
    assert "Need admin permission" in denied
    account = ("updateAclConfig", "-b", ours.broker, "-a", "made-by-tool", "-s", "tool-secret", "-t", "tools=PUB")
    assert "success" in mqadmin(*account)
    assert "Need admin permission" in mqadmin(*account, access_key="denied-key", secret_key=SECRET)
    with java.producer(ours.namesrv, access_key="made-by-tool", secret_key="tool-secret") as producer:
        assert producer.send("tools", "x").status == "SEND_OK"
    shown = mqadmin("getAclConfig", "-b", ours.broker)
    assert "made-by-tool" in shown
    assert "tool-secret" not in shown
    assert "admin-key" not in mqadmin("getAclConfig", "-b", ours.broker, access_key="pub-key", secret_key=SECRET)
    assert "plain_acl.yml" in mqadmin("clusterAclConfigVersion", "-b", ours.broker)
    assert "success" in mqadmin("updateGlobalWhiteAddr", "-b", ours.broker, "-g", "10.0.0.1,10.0.0.2")
    assert "success" in mqadmin("deleteAclConfig", "-b", ours.broker, "-a", "made-by-tool")
    assert "made-by-tool" not in mqadmin("getAclConfig", "-b", ours.broker)
