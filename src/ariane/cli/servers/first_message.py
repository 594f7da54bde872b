"""The first thing a new user sees: one message sent and consumed."""

from ariane import ConsumeFrom, aio
from ariane.cli.screen import console
from ariane.message import Message

TOPIC = "ArianeFirstMessage"
GROUP = "ariane-first-message"


async def show_first_message(name_servers: str) -> None:
    """Send a message and wait until a consumer has it."""
    async with aio.Producer(GROUP, name_servers=name_servers) as producer:
        sent = await producer.send(Message(TOPIC, b"Hello from Ariane", tags="first"))
        console.print(f"[green]sent[/green]      {sent.message_id} to queue {sent.queue.queue_id} of {TOPIC}")
    async with aio.PushConsumer(GROUP, TOPIC, name_servers=name_servers, consume_from=ConsumeFrom.FIRST) as consumer:
        async for message in consumer:
            console.print(f"[green]consumed[/green]  {message.message_id}: {message.body.decode()}")
            if message.message_id == sent.message_id:
                return
