"""Every request code, with every kind of credentials, in every form of transport: as the documents promise."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ariane.env import SystemClock
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import BINARY, JSON, Command
from ariane.remoting import Client, TlsClient
from tests.access.document import PAGE, rewritten
from tests.access.matrix import CREDENTIALS, RULES, SECRET, TOPIC, documented, is_promised, is_refused, requests
from tests.broker.talk import PATIENCE, Talk, send_fields, small_broker
from tests.peers import free_port


def test_the_tables_in_the_documents_are_those_of_the_code() -> None:
    """`python -m tests.access.document` writes them anew."""
    assert PAGE.read_text() == rewritten(PAGE.read_text())


@asynccontextmanager
async def guarded(folder: Path, rules: str = RULES, **options: object) -> AsyncIterator[Talk]:
    """A broker with access control."""
    (folder / "conf").mkdir()
    (folder / "conf/plain_acl.yml").write_text(rules)
    broker = small_broker(folder / "store", rocketmqHome=folder, aclEnable=True, **options)
    async with Talk.to(broker) as talk:
        yield talk


async def place_of_a_message(talk: Talk) -> int:
    """Where a message of TOPIC is in the log."""
    place = talk.broker.store.log_max
    command = CREDENTIALS[-1].sign(Command(RequestCode.SEND_MESSAGE_V2, send_fields(TOPIC), b"x"))
    assert (await talk.client.request(talk.address, command, PATIENCE)).code == 0
    return place


@pytest.mark.parametrize("form", ["plain", "binary header", "VIP port", "TLS", "one-way"])
async def test_each_request_is_let_in_or_refused_as_the_documents_say(tmp_path: Path, form: str) -> None:
    port = free_port(-2)
    async with guarded(tmp_path, listenPort=port) as talk:
        made = requests(await place_of_a_message(talk))
        promises = documented()
        assert made.keys() == promises.keys()
        tls = TlsClient(insecure=True) if form == "TLS" else None
        client = Client(clock=SystemClock(), tls=tls)
        address = f"127.0.0.1:{port - 2}" if form == "VIP port" else talk.address
        counters = talk.broker.access.rules.counters  # type: ignore[union-attr]
        wrong: list[str] = []
        for code, make in made.items():
            for credentials in CREDENTIALS:
                command = make()
                command.serialization = BINARY if form == "binary header" else JSON
                command = credentials.sign(command)
                before = counters.refused.total()
                if form == "one-way":
                    await client.oneway(address, command)
                    probe = CREDENTIALS[-1].sign(Command(RequestCode.GET_BROKER_RUNTIME_INFO))
                    await client.request(address, probe, PATIENCE)
                    refused = counters.refused.total() > before
                else:
                    refused = is_refused(await client.request(address, command, PATIENCE))
                    assert refused == (counters.refused.total() > before)
                if refused == is_promised(code, credentials, promises[code]):
                    wrong.append(f"{code} with {credentials.name}: {'refused' if refused else 'let in'}")
        await client.close()
        assert wrong == []


async def test_an_unknown_code_is_not_supported_for_accounts_and_refused_for_others(tmp_path: Path) -> None:
    async with guarded(tmp_path) as talk:
        for credentials in CREDENTIALS:
            answer = await talk.client.request(talk.address, credentials.sign(Command(999)), PATIENCE)
            assert is_refused(answer) != bool(credentials.rights)
            assert not credentials.rights or answer.code == 3


async def test_a_refused_send_stores_nothing_whatever_its_form(tmp_path: Path) -> None:
    async with guarded(tmp_path) as talk:
        end = await place_of_a_message(talk)
        end = talk.broker.store.log_max
        made = requests(0)
        for credentials in CREDENTIALS:
            if "pub" not in credentials.rights:
                for code in (10, 310, 320, 324, 325):
                    command = credentials.sign(made[code]())
                    assert is_refused(await talk.client.request(talk.address, command, PATIENCE))
        assert talk.broker.store.log_max == end
        assert SECRET not in talk.broker.options.settings.properties().values()
