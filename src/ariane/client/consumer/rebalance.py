"""Which queues are ours: asked anew when members come or go, and now and then."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from ariane.client.connect.instance import Instance
from ariane.client.options import ConsumerOptions, Model
from ariane.errors import AccessDenied, ArianeError, BrokerRefused
from ariane.message import RETRY_PREFIX, MessageQueue

log = logging.getLogger("ariane.client")

SETTLE = 0.2  # seconds between joining a group with members and taking its queues

Divide = Callable[[str, set[MessageQueue]], Awaitable[bool]]
"""Called with a topic and the queues of it that are ours; says whether anything changed."""


class Rebalance:
    """Works out our share of each topic, again and again."""

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

    def start(self) -> None:
        """Rebalance each 20 s and whenever `soon` is called."""
        self._task = self._instance.spawn(self._run())

    async def stop(self) -> None:
        """No more changes; waits for one that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def soon(self) -> None:
        """Rebalance as soon as possible."""
        self._due.set()

    async def _run(self) -> None:
        while True:
            await self._wait()
            await self.now()

    async def _wait(self) -> None:
        due = asyncio.ensure_future(self._due.wait())
        late = asyncio.ensure_future(self._instance.env.clock.sleep(self._options.rebalance_interval))
        try:
            await asyncio.wait({due, late}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            due.cancel()
            late.cancel()
        self._due.clear()

    async def join(self) -> None:
        """The first round. Members that were there before get a moment to store their offsets and let go of queues."""
        if self._options.model is Model.CLUSTERING and await self._has_company():
            await self._instance.env.clock.sleep(SETTLE)
        await self.now()

    async def _has_company(self) -> bool:
        for topic in list(self._topics()):
            try:
                return len(await self._members(topic)) > 1
            except ArianeError as error:
                log.debug("%s: nobody knows the members yet: %s", self._group, error)
        return False

    async def now(self) -> None:
        """One round over all topics; a topic that fails waits for the next round."""
        async with self._turn:
            changed = False
            for topic in list(self._topics()):
                try:
                    changed |= await self._balance(topic)
                except ArianeError as error:
                    if not topic.startswith(RETRY_PREFIX):
                        log.warning("%s: topic %s was not rebalanced: %s", self._group, topic, error)
            if changed:
                await self._instance.send_heartbeats()
                self._announced()

    async def _balance(self, topic: str) -> bool:
        route = await self._instance.routes.find(topic)
        queues = sorted(route.read_queues)
        if self._options.model is Model.BROADCASTING:
            return await self._divide(topic, set(queues))
        members = sorted(await self._members(topic))
        me = self._instance.client_id
        if me not in members:  # the broker does not know us yet, or not any more
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
        """The members of the group, as any broker of the topic knows them."""
        route = await self._instance.routes.find(topic)
        brokers = [broker.broker_addrs for broker in route.data.broker_datas if broker.broker_addrs]
        self._instance.env.random.shuffle(brokers)
        failure: ArianeError | None = None
        for addresses in brokers:
            try:
                return await self._instance.calls.members(self._group, addresses.get(0) or addresses[min(addresses)])
            except AccessDenied as error:
                failure = error
            except BrokerRefused:  # it knows no such group: nobody has sent it a heartbeat
                return []
            except ArianeError as error:
                failure = error
        if failure is not None:
            raise failure
        return []
