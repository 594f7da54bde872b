"""Where the application's producers and consumers come from: real clients, made from settings.

Tests put their own in place of `Clients`, so the rest of the package knows only these protocols.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from pydantic import SecretStr

from ariane import (
    ConsumeFrom,
    ConsumerStats,
    ConsumeStatus,
    Delivery,
    Message,
    MessageQueue,
    Model,
    ReceivedMessage,
    SendResult,
    Sql,
    TransactionResult,
    TransactionState,
    aio,
)
from ariane.app.settings import (
    DEFAULT_NAME_SERVER,
    ClusterSettings,
    ListenerSettings,
    ProducerSettings,
    PullConsumerSettings,
    StartAt,
    TlsSettings,
)
from ariane.remoting import TlsClient

Deliver = (
    Callable[[list[ReceivedMessage], Delivery], ConsumeStatus]
    | Callable[[list[ReceivedMessage], Delivery], Awaitable[ConsumeStatus]]
)
Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
Callback = Callable[[SendResult | None, Exception | None], None]


ENDLESS_TRIES: Final = 1 << 30
"""Tries of an orderly listener without a limit; brokers compute a delay level from them, which must fit 32 bits."""


class Client(Protocol):
    """What can be started once and closed once."""

    async def start(self) -> Any: ...

    async def close(self) -> None: ...


class SendingClient(Client, Protocol):
    """A producer, as the template uses it."""

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> SendResult: ...

    def submit(
        self,
        message: Message,
        *,
        callback: Callback | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> "asyncio.Future[SendResult]": ...

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
    ) -> None: ...

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> list[SendResult]: ...

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> ReceivedMessage: ...

    async def reply(self, request: ReceivedMessage, body: bytes, *, timeout: float | None = None) -> SendResult: ...

    async def queues(self, topic: str) -> list[MessageQueue]: ...


class TransactionClient(SendingClient, Protocol):
    """A transaction producer."""

    async def send_in_transaction(
        self, message: Message, argument: Any = None, *, timeout: float | None = None
    ) -> TransactionResult: ...


class ConsumingClient(Client, Protocol):
    """A push consumer, as a listener has it; `prepare_start` gets it before it starts."""

    async def stats(self) -> ConsumerStats: ...

    async def queues(self) -> list[MessageQueue]: ...

    async def subscribe(self, topic: str, expression: str | Sql = "*") -> None: ...


class PollingClient(Client, Protocol):
    """A lite pull consumer, as `app.receive` uses it."""

    async def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]: ...

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None, *, wait: bool = True) -> None: ...


class LocalTransactions(Protocol):
    """The two questions of a transaction; both are answered in the event loop."""

    async def execute(self, message: Message, result: SendResult, argument: Any) -> TransactionState | None: ...

    async def check(self, message: ReceivedMessage) -> TransactionState | None: ...


class Clients:
    """Makes the real clients; `name_servers` takes the place of all others, for tests."""

    def __init__(self, name_servers: tuple[str, ...] | None = None) -> None:
        self._name_servers = name_servers

    def producer(self, cluster: ClusterSettings, group: str, settings: ProducerSettings) -> SendingClient:
        """The template's producer."""
        return aio.Producer(group, **self._access(cluster, settings), **_producing(settings))

    def transaction_producer(
        self, cluster: ClusterSettings, group: str, settings: ProducerSettings, listener: LocalTransactions
    ) -> TransactionClient:
        """A producer for one transaction listener."""
        return aio.TransactionProducer(group, listener, **self._access(cluster, settings), **_producing(settings))

    def consumer(
        self,
        cluster: ClusterSettings,
        group: str,
        topics: Sequence[str],
        deliver: Deliver,
        settings: ListenerSettings,
        stop_timeout: float,
    ) -> ConsumingClient:
        """A listener's consumer."""
        wanted = Sql(settings.sql) if settings.sql is not None else settings.tags
        options = self._access(cluster, settings) | _consuming(settings.start_at, settings.broadcast)
        options |= _trace(settings.trace, settings.trace_topic)
        endless = settings.orderly and settings.max_retries < 0
        return aio.PushConsumer(
            group,
            dict.fromkeys(topics, wanted),
            deliver,
            orderly=settings.orderly,
            threads=settings.concurrency,
            consume_batch=settings.batch,
            consume_timeout=settings.timeout,
            max_reconsume_times=ENDLESS_TRIES if endless else settings.max_retries,
            suspend=settings.suspend,
            pull_batch=settings.pull_batch,
            pull_interval=settings.pull_interval,
            close_timeout=stop_timeout,
            **options,
        )

    def pull_consumer(
        self, cluster: ClusterSettings, group: str, topic: str, settings: PullConsumerSettings
    ) -> PollingClient:
        """The consumer of `app.receive`."""
        wanted = Sql(settings.sql) if settings.sql is not None else settings.tags
        options = self._access(cluster, settings) | _consuming(settings.start_at, settings.broadcast)
        options |= _trace(settings.trace, settings.trace_topic)
        return aio.LitePullConsumer(
            group, {topic: wanted}, auto_commit=False, pull_batch=settings.pull_batch, **options
        )

    def _access(
        self, cluster: ClusterSettings, own: ProducerSettings | ListenerSettings | PullConsumerSettings
    ) -> dict[str, Any]:
        """What every client needs to reach its cluster; a client's own settings win over the cluster's."""
        servers = self._name_servers or getattr(own, "name_servers", None) or name_servers_of(cluster)
        secret = own.secret_key or cluster.secret_key
        return {
            "name_servers": servers,
            "namespace": cluster.namespace if own.namespace is None else own.namespace,
            "access_key": own.access_key or cluster.access_key,
            "secret_key": _plain(secret),
            "security_token": _plain(cluster.security_token),
            "tls": _tls(own.tls or cluster.tls),
            "instance_name": own.instance_name or cluster.instance_name,
            "unit_name": cluster.unit_name,
        }


def name_servers_of(cluster: ClusterSettings) -> tuple[str, ...]:
    """The name servers that are used: those set, those of NAMESRV_ADDR, or the local one."""
    if cluster.name_servers:
        return cluster.name_servers
    named = os.environ.get("NAMESRV_ADDR", "").split(";")
    return tuple(part.strip() for part in named if part.strip()) or (DEFAULT_NAME_SERVER,)


def _plain(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _tls(settings: TlsSettings | None) -> TlsClient | None:
    if settings is None or not settings.enabled:
        return None
    return TlsClient(
        insecure=settings.insecure,
        trust_cert_path=settings.trust_cert_path,
        cert_path=settings.cert_path,
        key_path=settings.key_path,
        key_password=_plain(settings.key_password),
    )


def _producing(settings: ProducerSettings) -> dict[str, Any]:
    return {
        "send_timeout": settings.send_timeout,
        "retries": settings.retries,
        "async_retries": settings.async_retries,
        "retry_another_broker_when_not_store_ok": settings.retry_next_server,
        "max_message_size": settings.max_message_size,
        "compress_over": settings.compress_over,
        "latency_faults": settings.latency_faults,
        "vip_channel": settings.vip_channel,
    } | _trace(settings.trace, settings.trace_topic)


def _trace(on: bool, topic: str | None) -> dict[str, Any]:
    return {"trace": on} | ({} if topic is None else {"trace_topic": topic})


def _consuming(start_at: StartAt, broadcast: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"model": Model.BROADCASTING if broadcast else Model.CLUSTERING}
    if isinstance(start_at, datetime):
        return found | {"consume_from": ConsumeFrom.TIMESTAMP, "consume_timestamp": start_at}
    return found | {"consume_from": ConsumeFrom.FIRST if start_at == "first" else ConsumeFrom.LAST}
