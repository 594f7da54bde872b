"""Gates and observers of a broker: every request and every answer, those of the hot path included."""

import asyncio
from pathlib import Path

from ariane.broker.server import Broker
from ariane.errors import ResponseError
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.remoting import Client, Peer
from tests.broker.talk import PATIENCE, Talk, pull_fields, send_fields, settled, small_options

SUSPEND = 2


class Watch:
    """An observer that takes notes of answers."""

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.answers: list[tuple[int, int, dict[str, str], int]] = []

    def requested(self, peer: Peer, request: Command) -> None:
        self.requests.append(request.code)

    def answered(self, peer: Peer, request: Command, response: Command, body_size: int) -> None:
        self.answers.append((request.code, response.code, response.fields, body_size))


class Key:
    """A gate that wants a field, wherever it stands, in every request."""

    def check(self, peer: Peer, request: Command) -> None:
        if request.wire_fields().get("AccessKey") != "shop":
            raise ResponseError(1, "No accessKey is configured")


async def test_observers_see_fast_answers_to_sends_and_pulls(tmp_path: Path) -> None:
    watch = Watch()
    async with Talk.to(Broker(small_options(tmp_path), observers=(watch,))) as talk:
        for n in range(5):  # the first header is decoded, the others are recognised by their shape
            await talk.send_ok("orders", b"%d" % n, properties=f"UNIQ_KEY\x01{n:032X}\x02")
        found = await talk.pull("orders")
        waiting = asyncio.ensure_future(talk.pull("orders", 0, 5, sys_flag=4 | SUSPEND, suspend_timeout_millis=60_000))
        await settled(lambda: watch.requests.count(RequestCode.PULL_MESSAGE) == 2)
        await talk.send_ok("orders", b"wakes the pull")
        late = await waiting
    sends = [answer for answer in watch.answers if answer[0] == RequestCode.SEND_MESSAGE_V2]
    assert [fields["queueOffset"] for _, _, fields, _ in sends] == ["0", "1", "2", "3", "4", "5"]
    assert all(code == 0 and "msgId" in fields for _, code, fields, _ in sends)
    pulls = [answer for answer in watch.answers if answer[0] == RequestCode.PULL_MESSAGE]
    assert [(code, fields["nextBeginOffset"], size) for _, code, fields, size in pulls] == [
        (0, "5", len(found.body)),
        (0, "6", len(late.body)),
    ]
    assert len(found.body) > 0 < len(late.body)


async def test_a_gate_stands_before_every_handler_and_lets_the_hot_path_work(tmp_path: Path) -> None:
    watch = Watch()
    broker = Broker(small_options(tmp_path), gates=(Key(),), observers=(watch,))
    async with Talk.to(broker) as talk:
        client = Client(clock=broker.env.clock)
        refused = {}
        for code in {*broker.handlers, 999, 15, 310, 11}:
            answer = await client.request(talk.address, Command(code, send_fields("orders"), b"x"), PATIENCE)
            refused[code] = (answer.code, answer.remark)
        assert set(refused.values()) == {(1, "No accessKey is configured")}
        assert broker.store.max_offset("orders", 0) == 0
        key = {"AccessKey": "shop"}
        for n in range(4):
            fields = {**send_fields("orders", properties=f"UNIQ_KEY\x01{n:032X}\x02"), **key}
            assert (await client.request(talk.address, Command(310, fields, b"x"), PATIENCE)).code == 0
        pull = Command(11, {**pull_fields("orders"), **key})
        assert (await client.request(talk.address, pull, PATIENCE)).code == 0
        await client.close()
    assert len(watch.answers) == len(watch.requests)
