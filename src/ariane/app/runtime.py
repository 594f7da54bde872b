"""What an application runs on: its settings, its event loop, and the clients of all its clusters."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from ariane.app.clients import Client, Clients, PollingClient
from ariane.app.errors import AppError, NotStarted, SettingsError
from ariane.app.payload import Payloads
from ariane.app.send.template import Template
from ariane.app.send.transactions import TransactionListener
from ariane.app.settings import Settings

T = TypeVar("T")


class Runtime(Template, ABC):
    """The template of the main cluster, with those of the others."""

    def __init__(self, settings: Settings, payloads: Payloads) -> None:
        super().__init__(None, payloads, [])
        self.settings = settings
        self.payloads = payloads
        self.clients = Clients()
        self._templates = {
            cluster: Template(cluster, payloads, self._send_middlewares) for cluster in settings.clusters
        }
        self._started: list[Client] = []
        self._pull_consumer: PollingClient | None = None
        self._pull_lock: asyncio.Lock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def name(self) -> str:
        """The application's name."""
        return self.settings.name

    @abstractmethod
    async def start(self) -> None:
        """Start everything."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop everything."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that the application runs in."""
        if self._loop is None:
            raise NotStarted
        return self._loop

    def cluster(self, name: str | None) -> Template:
        """The template of another cluster of `clusters`; the application itself for None."""
        if name is None:
            return self
        self.settings.cluster_named(name)  # raises when there is none
        return self._templates[name]

    async def receive(self, kind: type[T], timeout: float = 5.0) -> list[T]:
        """The next payloads of the topic in `pull_consumer`, once, or none in time; their offset is then committed."""
        self.check_running()
        assert self._pull_lock is not None
        async with self._pull_lock:
            consumer = await self._start_pull_consumer()
            decode = self.payloads.decoder(kind)
            found = [decode(message.body, message.properties) for message in await consumer.poll(timeout)]
            await consumer.commit()
            return found

    async def _start_pull_consumer(self) -> PollingClient:
        if self._pull_consumer is None:
            wanted = self.settings.pull_consumer
            if wanted.group is None or wanted.topic is None:
                raise SettingsError("app.receive needs pull_consumer.group and pull_consumer.topic in the settings")
            self._pull_consumer = self.clients.pull_consumer(self.settings.cluster, wanted.group, wanted.topic, wanted)
            await self._start_client(self._pull_consumer)
        return self._pull_consumer

    # -- clients ---------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """The application starts, in this loop."""
        self._loop = asyncio.get_running_loop()
        self._pull_lock = asyncio.Lock()

    def _shut(self) -> None:
        """All clients are closed: forget them."""
        for template in (self, *self._templates.values()):
            template._producer = None
            template._transaction_producers.clear()
        self._started = []
        self._pull_consumer = self._pull_lock = self._loop = None

    async def _start_producers(self, transactions: Sequence[TransactionListener[..., Any]]) -> None:
        settings = self.settings.producer
        group = settings.group or self.name
        for template in (self, *self._templates.values()):
            cluster = self.settings.cluster_named(template._cluster)
            template._producer = self.clients.producer(cluster, group, settings)
            await self._start_client(template._producer)
        for listener in transactions:
            if listener.group == group:
                raise AppError(
                    f"transaction listener {listener.group}: the template's producer has this group already; "
                    "set another producer.group, or another group here"
                )
            template = self.cluster(listener.cluster)
            cluster = self.settings.cluster_named(listener.cluster)
            producer = self.clients.transaction_producer(
                cluster, listener.group, settings, listener.bind(self.payloads)
            )
            await self._start_client(producer)
            template._transaction_producers[listener.group] = producer

    async def _start_client(self, client: Client) -> None:
        await client.start()
        self._started.append(client)

    async def _close(self, clients: list[Client], errors: list[Exception]) -> None:
        """Close clients side by side, so that each has the whole time for its handlers."""
        for result in await asyncio.gather(*(client.close() for client in clients), return_exceptions=True):
            if isinstance(result, Exception):
                errors.append(result)
