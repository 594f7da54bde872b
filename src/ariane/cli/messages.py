"""`ariane send` and `ariane tail`: a message in, messages out, from the shell."""

import asyncio
import sys
from enum import StrEnum
from typing import Annotated

import typer

from ariane import aio
from ariane.cli.connection import client_options
from ariane.cli.operate.session import Namesrv, Profile
from ariane.cli.serve import run, until_stopped
from ariane.client.decoding import decode_messages
from ariane.client.options import ClientOptions
from ariane.errors import ArianeError, NameServersUnreachable, RemotingError, ResponseError, RouteMissing
from ariane.message import MessageQueue, ReceivedMessage

SUSPEND = 15.0  # seconds that a broker holds a pull for which it has nothing
RETRY = 1.0
LOOK_AGAIN = 5.0  # seconds between looks for queues that were added


class Start(StrEnum):
    """Where to begin with a queue."""

    START = "start"
    END = "end"


def tail(
    topic: Annotated[str, typer.Argument(help="topic to read")],
    namesrv: Namesrv = None,
    profile: Profile = None,
    expression: Annotated[str, typer.Option("-e", "--tags", help="tags: A || B")] = "*",
    start: Annotated[
        Start, typer.Option("--from", help="start: all stored messages first; end: new ones")
    ] = Start.START,
    count: Annotated[int | None, typer.Option(min=1, help="stop after so many messages")] = None,
) -> None:
    """Print the messages of a topic as they arrive. Reads without a consumer group: it takes nothing from consumers."""
    run(_tail(topic, client_options(namesrv, profile), expression, start, count))


async def _tail(topic: str, options: ClientOptions, expression: str, start: Start, count: int | None) -> None:
    async with aio.PullClient(options=options) as client:
        reading = asyncio.ensure_future(Tail(client, topic, expression, start, count).run())
        stopped = asyncio.ensure_future(until_stopped())
        await asyncio.wait({reading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    if not reading.cancelled() and (error := reading.exception()) is not None:
        raise error


class Tail:
    """Follows all queues of a topic, also those that are added meanwhile."""

    def __init__(self, client: aio.PullClient, topic: str, expression: str, start: Start, count: int | None) -> None:
        self._client = client
        self._topic = topic
        self._expression = expression
        self._start = start
        self._left = count
        self._readers: dict[MessageQueue, asyncio.Task[None]] = {}
        self._done = asyncio.Event()
        self._trouble = ""

    async def run(self) -> None:
        """Return when `count` messages were printed."""
        try:
            async with asyncio.TaskGroup() as group:
                looking = group.create_task(self._look_for_queues(group))
                await self._done.wait()
                looking.cancel()
                for reader in self._readers.values():
                    reader.cancel()
        except ExceptionGroup as errors:  # `except*` would wrap what it raises in a group again
            first = errors.exceptions[0]
            raise (first if isinstance(first, ArianeError) else errors) from None

    async def _look_for_queues(self, group: asyncio.TaskGroup) -> None:
        start = self._start
        while True:
            try:
                queues = await self._client.queues(self._topic)
                for queue in queues:
                    if queue not in self._readers:
                        self._readers[queue] = group.create_task(self._follow(queue, start))
                start = Start.START  # of a queue that is added later nothing is old
                await asyncio.sleep(LOOK_AGAIN)
            except RouteMissing:
                self._say(f"topic {self._topic} does not exist yet: waiting for it")
                await asyncio.sleep(RETRY)
                start = Start.START
            except NameServersUnreachable as error:
                if not self._readers:
                    raise
                self._say(str(error))
                await asyncio.sleep(LOOK_AGAIN)

    async def _follow(self, queue: MessageQueue, start: Start) -> None:
        offset: int | None = None
        while True:
            try:
                if offset is None:
                    place = self._client.min_offset if start is Start.START else self._client.max_offset
                    offset = await place(queue)
                found = await self._client.pull(
                    queue, offset, 32, self._expression, suspend=SUSPEND, timeout=2 * SUSPEND
                )
                self._print(decode_messages(found.body, queue.broker_name))
                offset = found.next_offset
                self._trouble = ""
            except (RemotingError, ResponseError, RouteMissing, NameServersUnreachable) as error:
                self._say(str(error))
                await asyncio.sleep(RETRY)

    def _print(self, messages: list[ReceivedMessage]) -> None:
        for message in messages[: self._left]:
            print(f"{message.message_id} {message.tags or '-'} {message.body.decode(errors='replace')}", flush=True)
        if self._left is not None:
            self._left -= len(messages[: self._left])
            if self._left == 0:
                self._done.set()

    def _say(self, trouble: str) -> None:
        """Report a problem once, not at each attempt."""
        if trouble != self._trouble:
            self._trouble = trouble
            print(trouble, file=sys.stderr, flush=True)
