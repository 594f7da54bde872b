"""The first thing a new user sees: one message sent and consumed."""

import asyncio

from ariane import aio
from ariane.cli.screen import console
from ariane.message import Message, ReceivedMessage

TOPIC = "ArianeFirstMessage"
GROUP = "ariane-first-message"


async def show_first_message(namesrv: str) -> None:
    """Send a message and wait until a consumer has it."""
    arrived: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()

    async def keep(message: ReceivedMessage) -> None:
        if not arrived.done():
            arrived.set_result(message)

    async with aio.Producer(group=GROUP, namesrv=namesrv) as producer:
        sent = await producer.send(Message(TOPIC, b"Hello from Ariane", tags="first"))
        console.print(f"[green]sent[/green]      {sent.message_id} to queue {sent.queue.queue_id} of {TOPIC}")
        async with aio.PushConsumer(GROUP, keep, namesrv=namesrv, consume_from="first") as consumer:
            await consumer.subscribe(TOPIC)
            message = await asyncio.wait_for(arrived, 30)
    console.print(f"[green]consumed[/green]  {message.message_id}: {message.body.decode()}")
