"""What runs beside an application: producer, sender, resender and retention, in one event loop."""

import asyncio
import logging

from ariane import ClientOptions, ProducerOptions, aio
from ariane.env import Clock
from ariane.guarantee.database import Database
from ariane.guarantee.options import GuaranteeOptions
from ariane.guarantee.resend import Resender
from ariane.guarantee.retention import SWEEP_INTERVAL, sweep
from ariane.guarantee.send import Sender

log = logging.getLogger("ariane.guarantee")


class Service:
    """Starts and stops them together. `resend`: whether resending and retention run here too."""

    def __init__(
        self, database: Database, options: GuaranteeOptions, client: ClientOptions, clock: Clock, *, resend: bool
    ) -> None:
        self._database = database
        self._options = options
        self._clock = clock
        self._resend = resend
        self._producer = aio.Producer(options.producer_group, options=ProducerOptions.of(client, {}))
        self._admin = aio.Admin(options=client)
        self.sender = Sender(database, self._producer, options, clock)
        self.resender = Resender(database, self._producer, self._admin, options, clock)
        self._sending: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect and begin."""
        await self._producer.start()
        await self._admin.start()
        self._sending = asyncio.create_task(self.sender.run())
        if self._resend:
            self._tasks = [asyncio.create_task(self.resender.run()), asyncio.create_task(self._sweep())]

    async def close(self) -> None:
        """Send what waits, and stop."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sending is not None:
            self.sender.close()
            await self._sending
        await self._admin.close()
        await self._producer.close()

    async def _sweep(self) -> None:
        while True:
            try:
                await sweep(self._database, self._options, self._clock)
            except Exception as error:
                log.warning("a sweep of old stubs failed, the next follows: %s", error)
            await self._clock.sleep(SWEEP_INTERVAL)
