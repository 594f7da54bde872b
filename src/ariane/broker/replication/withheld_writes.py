"""A restarted master whose sends wait for slaves offers no writes until the slaves follow again.

Its slaves take some seconds to connect. Producers that find the master in the routes before get SLAVE_NOT_AVAILABLE
for messages that the promise of SYNC_MASTER should cover, although other masters could have taken them.
"""

import asyncio
import logging
from typing import Final

from ariane.broker.config.live import LiveOptions
from ariane.broker.registration import Registration
from ariane.broker.replication.role_record import RoleRecord
from ariane.broker.role import Role, RoleKind
from ariane.broker.tables.topics import TopicTable
from ariane.env import Clock
from ariane.ha import HaMaster

log = logging.getLogger("ariane.broker.replication")

LOOK: Final = 0.1  # seconds


class WithheldWrites:
    """Registers topics as read-only from the start of a SYNC_MASTER until enough slaves are in sync, or time is up.

    Only a master that a slave has followed before waits, and never after a promotion.
    """

    def __init__(
        self,
        options: LiveOptions,
        role: Role,
        record: RoleRecord,
        master: HaMaster,
        topics: TopicTable,
        registration: Registration,
        clock: Clock,
    ) -> None:
        self._options = options
        self._role = role
        self._record = record
        self._master = master
        self._topics = topics
        self._registration = registration
        self._clock = clock
        self._restarted = True
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Withhold writes, at the first start of the role."""
        first, self._restarted = self._restarted, False
        seconds = self._options.current.writes_await_slaves_seconds
        if first and seconds and self._role.kind is RoleKind.SYNC_MASTER and self._record.shares_log:
            self._registration.withholds_writes = True
            self._task = asyncio.get_running_loop().create_task(self._offer_later(seconds), name="await slaves")

    async def stop(self) -> None:
        """Give up waiting."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._offer()

    async def _offer_later(self, seconds: float) -> None:
        deadline = self._clock.monotonic() + seconds
        while self._master.in_sync() < max(self._master.needed(), 1):
            if self._clock.monotonic() >= deadline:
                log.warning("no slave followed within %g s: messages are taken without copies", seconds)
                break
            await self._clock.sleep(LOOK)
        self._offer()

    def _offer(self) -> None:
        if self._registration.withholds_writes:
            self._registration.withholds_writes = False
            self._topics.touch()  # name servers take topics only with a new version
            self._registration.soon()
