"""A broker for taskiq: `broker = RocketmqBroker("127.0.0.1:9876")`.

All workers share one consumer group. A task is held until taskiq acknowledges it, so that the task of a worker that
dies is given to another. The label `delay` (seconds) becomes a delay level of the broker.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

from ariane import ConsumeFrom, ConsumeStatus, Delivery, Message, ReceivedMessage, aio
from ariane.app.task_queues import DEFAULT_LEVELS, DelayLevels, topic_for
from ariane.errors import ArianeError, NotRunning
from ariane.extras import extra

with extra("taskiq", "the taskiq broker"):
    from taskiq import AckableMessage, AsyncBroker, BrokerMessage

log = logging.getLogger("ariane.app.taskiq")


class RocketmqBroker(AsyncBroker):
    """Tasks over RocketMQ, Ariane's or Apache's."""

    def __init__(
        self,
        name_servers: str | list[str] | None = None,
        *,
        queue: str = "taskiq",
        group: str | None = None,
        topic_queues: int = 8,
        max_in_flight: int = 100,
        visibility_timeout: float = 3600.0,
        delay_levels: str = DEFAULT_LEVELS,
        client: dict[str, Any] | None = None,
    ) -> None:
        """`client` has further options of every client: access_key, secret_key, namespace, tls, ..."""
        super().__init__()
        self._topic = topic_for(queue)
        self._group = group or f"taskiq-{self._topic}"
        self._topic_queues = topic_queues
        self._common: dict[str, Any] = {"name_servers": name_servers, **(client or {})}
        self._consuming: dict[str, Any] = {"threads": max_in_flight, "consume_timeout": visibility_timeout}
        self._levels = DelayLevels(delay_levels)
        self._producer: aio.Producer | None = None

    async def startup(self) -> None:
        """Create the topic unless it is there, and start the producer."""
        await super().startup()
        async with aio.Admin(**self._common) as admin:
            try:
                await admin.route(self._topic)
            except ArianeError:
                await admin.create_topic(self._topic, queues=self._topic_queues)
        producer = aio.Producer(f"{self._group}-senders", **self._common)
        await producer.start()
        self._producer = producer

    async def shutdown(self) -> None:
        """Stop the producer."""
        await super().shutdown()
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()

    async def kick(self, message: BrokerMessage) -> None:
        """Send a task."""
        if self._producer is None:
            raise NotRunning("the broker is not started: await broker.startup() first")
        delay = float(message.labels.get("delay", 0) or 0)
        await self._producer.send(
            Message(
                self._topic,
                message.message,
                tags=topic_for(message.task_name).replace("|", "_"),
                keys=message.task_id,
                delay_level=self._levels.level_for(delay),
            )
        )

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Tasks as they come, until the generator is closed."""
        arrived: asyncio.Queue[AckableMessage] = asyncio.Queue()

        async def hold(messages: list[ReceivedMessage], delivery: Delivery) -> ConsumeStatus:
            settled = asyncio.Event()

            async def acknowledge() -> None:
                settled.set()

            await arrived.put(AckableMessage(data=messages[0].body, ack=acknowledge))
            await settled.wait()
            return ConsumeStatus.CONSUME_SUCCESS

        consumer = aio.PushConsumer(
            self._group, self._topic, hold,
            consume_from=ConsumeFrom.FIRST, close_timeout=0.2, **self._common, **self._consuming,
        )  # fmt: skip
        async with consumer:
            while True:
                yield await arrived.get()
