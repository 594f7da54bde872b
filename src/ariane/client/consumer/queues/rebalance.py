"""Rebalance: computes this member's queues of each topic, periodically and when members join or leave."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from ariane.client.connect.instance import Instance
from ariane.client.consumer.options import ConsumerOptions, Model
from ariane.errors import AccessDenied, ArianeError, BrokerRefused, NameServersUnreachable, RouteMissing
from ariane.message import RETRY_PREFIX, MessageQueue

log = logging.getLogger("ariane.client")

MISSING_PAUSE, MAX_MISSING_PAUSE = 1.0, 10.0  # seconds until the missing route of a topic is queried again
SETTLE = 0.2  # seconds between joining a group with members and taking its queues

Divide = Callable[[str, set[MessageQueue]], Awaitable[bool]]
"""Called with a topic and our queues of it; returns whether anything changed."""


class Rebalance:
    """Computes our share of each topic."""

    def __init__(
        self,
        group: str,
        instance: Instance,
        options: ConsumerOptions,
        topics: Callable[[], Collection[str]],
        divide: Divide,
        announced: Callable[[], None],
    ) -> None:
        self._group = group
        self._instance = instance
        self._options = options
        self._topics = topics
        self._divide = divide
        self._announced = announced
        self._due = asyncio.Event()
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._missing = 0  # rounds in a row in which the route of a topic was missing
        self._complaints: dict[str, tuple[type[ArianeError], float]] = {}  # what was logged, and until when

    def start(self) -> None:
        """Rebalance each 20 s, whenever `soon` is called, and sooner while the route of a topic is missing."""
        self._task = self._instance.tasks.supervise(f"rebalancing of {self._group}", self._run)

    async def stop(self) -> None:
        """Stop, after the round that runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def soon(self) -> None:
        """Rebalance as soon as possible."""
        self._due.set()

    async def _run(self) -> None:
        while True:
            pause = self._options.rebalance_interval
            if self._missing:
                pause = min(MISSING_PAUSE * 2 ** min(self._missing - 1, 8), MAX_MISSING_PAUSE, pause)
            await self._instance.tasks.wait(self._due, pause)
            self._due.clear()
            await self.now()

    async def join(self) -> None:
        """Run the first round, after giving earlier members a moment to persist offsets and release queues."""
        if self._options.model is Model.CLUSTERING and await self._has_other_members():
            await self._instance.env.clock.sleep(SETTLE)
        await self.now()

    async def _has_other_members(self) -> bool:
        for topic in list(self._topics()):
            try:
                return len(await self._members(topic)) > 1
            except ArianeError as error:
                log.debug("%s: the members are not known yet: %s", self._group, error)
        return False

    async def now(self) -> None:
        """Run one round over all topics; a topic that fails is tried in the next round."""
        async with self._turn:
            changed = missing = False
            for topic in list(self._topics()):
                try:
                    changed |= await self._balance(topic)
                    self._complaints.pop(topic, None)
                except ArianeError as error:
                    missing |= isinstance(error, RouteMissing | NameServersUnreachable)
                    self._complain(topic, error)
                except Exception:
                    log.exception("%s: cannot rebalance topic %s, trying again", self._group, topic)
            self._missing = self._missing + 1 if missing else 0
            if changed:
                await self._instance.send_heartbeats()
                self._announced()

    def _complain(self, topic: str, error: ArianeError) -> None:
        """Log why a topic was not rebalanced; the same reason once each rebalance interval, not each second."""
        now = self._instance.env.clock.monotonic()
        reason, again_at = self._complaints.get(topic, (None, 0.0))
        if reason is not type(error) or now >= again_at:
            self._complaints[topic] = type(error), now + self._options.rebalance_interval
            level = logging.DEBUG if topic.startswith(RETRY_PREFIX) else logging.WARNING
            log.log(level, "%s: cannot rebalance topic %s, trying again: %s", self._group, topic, error)

    async def _balance(self, topic: str) -> bool:
        route = await self._instance.routes.find(topic)
        queues = sorted(route.read_queues)
        if self._options.model is Model.BROADCASTING:
            return await self._divide(topic, set(queues))
        members = sorted(await self._members(topic))
        me = self._instance.client_id
        if me not in members:  # the broker has no heartbeat of ours, or lost it
            await self._instance.send_heartbeats()
            self._announced()
            members = sorted(await self._members(topic))
        if me not in members or not queues:
            return False
        try:
            mine = set(self._options.allocate(self._group, me, queues, members))
        except Exception:
            log.exception("%s: the allocation strategy failed for topic %s", self._group, topic)
            return False
        return await self._divide(topic, mine)

    async def _members(self, topic: str) -> list[str]:
        """The members of the group, as a broker of the topic knows them."""
        route = await self._instance.routes.find(topic)
        brokers = [broker.broker_addrs for broker in route.data.broker_datas if broker.broker_addrs]
        self._instance.env.random.shuffle(brokers)
        failure: ArianeError | None = None
        for addresses in brokers:
            try:
                return await self._instance.calls.members(self._group, addresses.get(0) or addresses[min(addresses)])
            except AccessDenied as error:
                failure = error
            except BrokerRefused:  # an unknown group: no member has sent a heartbeat
                return []
            except ArianeError as error:
                failure = error
        if failure is not None:
            raise failure
        return []
