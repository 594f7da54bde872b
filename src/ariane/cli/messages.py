"""`ariane send` and `ariane tail`: a message in, messages out, from the shell."""

import asyncio
import sys
from typing import Annotated

import typer

from ariane import ConsumeFrom, aio
from ariane.cli.screen import console
from ariane.cli.serve import run, until_stopped
from ariane.message import Message

NameServers = Annotated[
    str, typer.Option("-n", "--namesrv", envvar="NAMESRV_ADDR", help="name servers: host:port;host:port")
]
DEFAULT_NAMESRV = "127.0.0.1:9876"


def send(
    topic: Annotated[str, typer.Argument(help="topic to send to")],
    body: Annotated[str, typer.Argument(help="the message; - reads it from standard input")],
    namesrv: NameServers = DEFAULT_NAMESRV,
    tags: Annotated[str | None, typer.Option(help="its tag")] = None,
    keys: Annotated[str | None, typer.Option(help="its keys, separated by blanks")] = None,
) -> None:
    """Send one message."""
    content = sys.stdin.buffer.read() if body == "-" else body.encode()
    run(_send(Message(topic, content, tags=tags, keys=keys), namesrv))


async def _send(message: Message, namesrv: str) -> None:
    async with aio.Producer("ariane-cli", name_servers=namesrv) as producer:
        sent = await producer.send(message)
    queue = sent.queue
    console.print(
        f"{sent.status.name} {sent.message_id} {queue.broker_name} queue {queue.queue_id} at {sent.queue_offset}"
    )


def tail(
    topic: Annotated[str, typer.Argument(help="topic to read")],
    namesrv: NameServers = DEFAULT_NAMESRV,
    expression: Annotated[str, typer.Option("-e", help="tags: A || B")] = "*",
    group: Annotated[str, typer.Option(help="consumer group")] = "ariane-tail",
    count: Annotated[int | None, typer.Option(help="stop after so many messages")] = None,
) -> None:
    """Print the messages of a topic as they come; what is already there comes first."""
    run(_tail(topic, namesrv, expression, group, count))


async def _tail(topic: str, namesrv: str, expression: str, group: str, count: int | None) -> None:
    reading = asyncio.ensure_future(_print_messages(topic, namesrv, expression, group, count))
    stopped = asyncio.ensure_future(until_stopped())
    await asyncio.wait({reading, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    if not reading.cancelled() and (error := reading.exception()) is not None:
        raise error


async def _print_messages(topic: str, namesrv: str, expression: str, group: str, count: int | None) -> None:
    seen = 0
    subscription = {topic: expression}
    first = ConsumeFrom.FIRST
    async with aio.PushConsumer(group, subscription, name_servers=namesrv, consume_from=first) as consumer:
        async for message in consumer:
            print(f"{message.message_id} {message.tags or '-'} {message.body.decode(errors='replace')}", flush=True)
            seen += 1
            if seen == count:
                return
