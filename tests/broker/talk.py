"""Speaking to a broker in raw commands over a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ariane.broker.config import BrokerOptions
from ariane.broker.server import Broker
from ariane.env import Env, ManualClock, SystemClock
from ariane.protocol.bodies import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import PullMessageRequest, SendMessageRequest, SendMessageRequestV2
from ariane.protocol.units import Unit, decode_units
from ariane.remoting import Client, Connection

PATIENCE = 60.0

ASKED_OF_CLIENTS = (
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
)

SMALL = {
    "brokerName": "broker-a",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "listenPort": 0,
    "bindAddress": "127.0.0.1",
    "mappedFileSizeCommitLog": 4 << 20,
    "mappedFileSizeConsumeQueue": 20 * 1000,
    "maxHashSlotNum": 400,
    "maxIndexNum": 1000,
    "diskMaxUsedSpaceRatio": 95,
    "rocketmq.broker.diskSpaceCleanForciblyRatio": 0.97,
    "rocketmq.broker.diskSpaceWarningLevelRatio": 0.99,
    "enablePropertyFilter": True,
}


def small_options(store: Path, **changes: Any) -> BrokerOptions:
    """Options for a test: small files, any free port, everything below `store`; change them by RocketMQ's names."""
    values = {**SMALL, "storePathRootDir": str(store), "storePathCommitLog": str(store / "commitlog"), **changes}
    return BrokerOptions.load("\n".join(f"{k} = {_java(v)}" for k, v in values.items() if v is not None))


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def small_broker(store: Path, *, env: Env | None = None, **changes: Any) -> Broker:
    """A broker for a test."""
    return Broker(small_options(store, **changes), env or Env())


class Talk:
    """A running broker and a client connected to it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.received: list[Command] = []
        """What the broker asked of this client."""
        self.answers: dict[int, Callable[[Command], Command]] = {}
        """How to answer some of it; the rest is only kept."""
        self._news = asyncio.Event()
        self.client = Client(clock=SystemClock(), handlers=dict.fromkeys(ASKED_OF_CLIENTS, self._asked))

    def _asked(self, _: Connection, request: Command) -> Command | None:
        self.received.append(request)
        self._news.set()
        answer = self.answers.get(request.code)
        return answer(request) if answer else None

    async def pass_time(self, clock: ManualClock, seconds: float) -> None:
        """Move the clock second by second, with time for the broker to do what is due in each of them."""
        for _ in range(int(seconds)):
            clock.advance(1)
            for _ in range(3):
                await self.ask(RequestCode.GET_MAX_OFFSET, {"topic": "none", "queueId": "0"})

    async def asked(self, code: int, count: int = 1) -> list[Command]:
        """Wait until the broker has asked this at least `count` times."""
        async with asyncio.timeout(PATIENCE):
            while len(found := [r for r in self.received if r.code == code]) < count:
                self._news.clear()
                await self._news.wait()
        return found

    @classmethod
    @asynccontextmanager
    async def to(cls, broker: Broker) -> AsyncIterator["Talk"]:
        await broker.start()
        try:
            async with cls.beside(broker) as talk:
                yield talk
        finally:
            await broker.stop()

    @classmethod
    @asynccontextmanager
    async def beside(cls, broker: Broker) -> AsyncIterator["Talk"]:
        """Another client of a broker that runs."""
        talk = cls(broker)
        try:
            yield talk
        finally:
            await talk.client.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.broker.port}"

    async def ask(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", **attributes: Any
    ) -> Command:
        """Send any request and wait for its answer."""
        return await self.client.request(self.address, Command(code, fields, body, **attributes), PATIENCE)

    async def send(self, topic: str, body: bytes = b"hello", *, v2: bool = True, **header: Any) -> Command:
        code = RequestCode.SEND_MESSAGE_V2 if v2 else RequestCode.SEND_MESSAGE
        return await self.ask(code, send_fields(topic, v2=v2, **header), body)

    async def send_ok(self, topic: str, body: bytes = b"hello", **header: Any) -> Command:
        answer = await self.send(topic, body, **header)
        assert answer.code == 0, answer.remark
        return answer

    async def pull(self, topic: str, queue_id: int = 0, offset: int = 0, **header: Any) -> Command:
        return await self.ask(RequestCode.PULL_MESSAGE, pull_fields(topic, queue_id, offset, **header))

    async def units(self, topic: str, queue_id: int = 0, offset: int = 0, **header: Any) -> list[Unit]:
        answer = await self.pull(topic, queue_id, offset, **header)
        return decode_units(answer.body) if answer.code == 0 else []

    async def heartbeat(
        self,
        group: str = "",
        topics: dict[str, str] | None = None,
        *,
        client_id: str = "client-1",
        producer: str = "",
        version: int = 1,
        model: str = "CLUSTERING",
        expression_type: str = "TAG",
    ) -> Command:
        subscriptions = [
            SubscriptionData.build(topic, expression, version, expression_type)
            for topic, expression in (topics or {}).items()
        ]
        consumers = [ConsumerData(group, message_model=model, subscription_data_set=subscriptions)] if group else []
        producers = [ProducerData(producer)] if producer else []
        body = HeartbeatData(client_id, producers, consumers).encode()
        return await self.ask(RequestCode.HEART_BEAT, None, body)


async def settled(ready: Callable[[], object]) -> None:
    """Let the event loop run until something is so; fails when that does not happen."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE):
        while not ready():
            turn = asyncio.Event()
            loop.call_soon(turn.set)
            await turn.wait()


def send_fields(topic: str, *, v2: bool = True, **header: Any) -> dict[str, str]:
    values: dict[str, Any] = {
        "producer_group": "producers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_000,
        "flag": 0,
        **header,
    }
    kind = SendMessageRequestV2 if v2 else SendMessageRequest
    return kind(**values).fields()


def pull_fields(topic: str, queue_id: int = 0, offset: int = 0, **header: Any) -> dict[str, str]:
    values: dict[str, Any] = {
        "consumer_group": "consumers",
        "topic": topic,
        "queue_id": queue_id,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": 4,
        "commit_offset": 0,
        "suspend_timeout_millis": 0,
        "subscription": "*",
        "sub_version": 0,
        **header,
    }
    return PullMessageRequest(**values).fields()
