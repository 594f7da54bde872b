"""Waits until no message arrives, until slaves have all of them, until groups have consumed them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from ariane.client.admin import Admin
from ariane.env import Clock, SystemClock
from ariane.errors import ArianeError, ClientError
from ariane.message import MessageQueue

LOOK: Final = 0.5  # seconds
QUIET: Final = 35.0  # seconds; clients ask for routes each 30 s
Quiet = Annotated[
    float,
    typer.Option(min=0, help="seconds without a new message that count as quiet; clients refresh routes each 30 s"),
]
TimeOut = Annotated[float, typer.Option("--timeout", min=0, help="seconds to wait for all of it")]


class StillBusy(ClientError):
    """What was waited for did not happen in time; the text says what is left."""


@dataclass
class Patience:
    """How long to wait."""

    quiet: float
    timeout: float
    clock: Clock

    @classmethod
    def of(cls, quiet: float, timeout: float) -> "Patience":
        """The patience that options say."""
        return cls(quiet, timeout, SystemClock())

    async def until_quiet(self, figure: Callable[[], Awaitable[int]], what: str) -> int:
        """Wait until a figure has not changed for `quiet` seconds; returns it."""
        start = since = self.clock.monotonic()
        seen = await figure()
        while self.clock.monotonic() - since < self.quiet:
            if self.clock.monotonic() - start > self.timeout:
                raise StillBusy(f"{what} after {self.timeout:g} s")
            await asyncio.sleep(LOOK)
            now = await figure()
            if now != seen:
                seen, since = now, self.clock.monotonic()
        return seen

    async def until_none(self, left: Callable[[], Awaitable[list[str]]], what: str) -> None:
        """Wait until nothing is left."""
        start = self.clock.monotonic()
        while found := await left():
            if self.clock.monotonic() - start > self.timeout:
                raise StillBusy(f"{what} after {self.timeout:g} s: {', '.join(found[:5])}")
            await asyncio.sleep(LOOK)


async def await_drained(admin: Admin, name: str, patience: Patience, *, consumed: bool) -> dict[str, str]:
    """Wait until a broker's log is quiet, its slaves have all of it and, if asked, every group consumed it."""
    addresses = (await admin.cluster_info()).broker_addr_table[name].broker_addrs
    master = addresses.get(0)
    if master is None:
        raise ClientError(f"{name} has no master now: promote a slave first")

    async def end() -> int:
        return await _log_end(admin, master)

    async def behind() -> list[str]:
        wanted = await end()
        slaves = [address for broker_id, address in sorted(addresses.items()) if broker_id != 0]
        return [address for address in slaves if await _log_end(admin, address) < wanted]

    async def unconsumed() -> list[str]:
        groups = (await admin.broker_progress(master)).groups
        lags = {
            group: sum(
                one.broker_offset - one.consumer_offset for topic in topics for one in topic.offset_table.values()
            )
            for group, topics in groups.items()
        }
        return [f"{group} has {lag}" for group, lag in lags.items() if lag > 0]

    log_end = await patience.until_quiet(end, f"messages still arrive at {name}: sends, retries or delayed messages")
    await patience.until_none(behind, f"slaves of {name} are behind")
    if consumed:
        await patience.until_none(unconsumed, f"groups have messages to consume on {name}")
    return {"broker": name, "address": master, "log end": str(log_end), "slaves": str(len(addresses) - 1)}


async def await_consumed(admin: Admin, topic: str, queues: list[MessageQueue], patience: Patience) -> None:
    """Wait until queues get no more messages and every group of the topic has consumed them."""

    async def written() -> int:
        return sum([await admin.max_offset(queue) for queue in queues])

    async def unconsumed() -> list[str]:
        groups = [group for group in await admin.topic_groups(topic) if not await _is_broadcasting(admin, group)]
        ends = [(queue, await admin.min_offset(queue), await admin.max_offset(queue)) for queue in queues]
        return [
            f"{group} in {queue.broker_name}/{queue.queue_id}"
            for queue, first, end in ends
            for group in groups
            if first < end and (await admin.committed(group, queue) or 0) < end
        ]

    await patience.until_quiet(written, f"messages still arrive in queues of {topic} that are to go")
    await patience.until_none(unconsumed, f"groups have messages to consume in queues of {topic} that are to go")


async def _is_broadcasting(admin: Admin, group: str) -> bool:
    """Whether the clients of a group keep their offsets themselves; False when none is online."""
    try:
        return (await admin.consumer_connections(group)).message_model == "BROADCASTING"
    except ArianeError:
        return False


async def _log_end(admin: Admin, address: str) -> int:
    try:
        return int((await admin.broker_stats(address)).get("commitLogMaxOffset", 0))
    except ArianeError:
        return -1  # it is down: a slave without the messages
