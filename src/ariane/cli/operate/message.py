"""`ariane message`: get, find, track, resend, send."""

import sys
from typing import Annotated

import typer

from ariane.cli.operate.moments import parse_moment, show_moment
from ariane.cli.operate.output import message_row, print_facts, print_json, print_table
from ariane.cli.operate.session import Json, Namesrv, Profile, Session, Yes, confirm, new_group
from ariane.client.admin import Admin
from ariane.client.admin.requests import FOREVER
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.producer import Producer
from ariane.errors import ArianeError, ClientError, ConfigError
from ariane.message import Message, MessageQueue, ReceivedMessage

app = new_group("Find, follow and send messages.")
Topic = Annotated[str, typer.Argument(help="its topic")]
Id = Annotated[str, typer.Argument(help="the id that its producer gave it, or the broker's offset id")]
SHOWN = 60  # characters of a body in a table


async def find_one(admin: Admin, topic: str, message_id: str) -> ReceivedMessage:
    """A message by either of its ids; ClientError when there is none."""
    found = await admin.find_message(topic, message_id)
    if found is None and len(message_id) in (32, 56):
        try:
            found = await admin.view_message(message_id)
        except ArianeError:
            found = None
        if found is not None and found.topic != topic:
            found = None
    if found is None:
        raise ClientError(
            f"topic {topic} has no message with the id {message_id}; a new one is found once it is indexed"
        )
    return found


@app.command("get")
def get(
    message_id: Annotated[
        str, typer.Argument(help="the offset id that the broker gave it; with --topic also the producer's id")
    ],
    topic: Annotated[str | None, typer.Option("-t", "--topic", help="its topic")] = None,
    body: Annotated[bool, typer.Option("--body", help="write the body alone, as it is")] = False,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Show a message."""

    async def work(admin: Admin) -> None:
        message = await (find_one(admin, topic, message_id) if topic else admin.view_message(message_id))
        if body:
            sys.stdout.buffer.write(message.body)
        elif as_json:
            print_json(message)
        else:
            show_message(message)

    Session(namesrv, profile).run(work)


def show_message(message: ReceivedMessage) -> None:
    """Print all about a message."""
    row = message_row(message)
    facts = [(name.replace("_", " "), row[name]) for name in row if name not in ("properties", "body", "body_base64")]
    facts = [
        (name, show_moment(value) if name.endswith("time") and isinstance(value, int) else value)
        for name, value in facts
    ]
    facts += [(f"property {name}", value) for name, value in sorted(message.properties.items())]
    print_facts([*facts, ("body", message.body.decode(errors="replace"))])


@app.command("find")
def find(
    topic: Topic,
    key: Annotated[str | None, typer.Option("-k", "--key", help="messages with this key")] = None,
    at: Annotated[str | None, typer.Option(help="the message at broker:queue:offset")] = None,
    begin: Annotated[str, typer.Option("--since", help="stored since: 30m (ago), 2026-01-31 07:00")] = "0",
    end: Annotated[str | None, typer.Option("--until", help="stored until")] = None,
    limit: Annotated[int, typer.Option(min=1, help="at most so many")] = 64,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Find messages by key, by place, or by time: one of --key, --at, --since."""
    first, last = parse_moment(begin), FOREVER if end is None else parse_moment(end)

    async def work(admin: Admin) -> None:
        if at is not None:
            found = [one] if (one := await admin.message_at(*_place(topic, at))) is not None else []
        elif key is not None:
            found = await admin.query_messages(topic, key, count=limit, begin=first, end=last)
        else:
            found = await _by_time(admin, topic, first, last, limit)
        if as_json:
            print_json(found)
            return
        rows = [
            (one.message_id, one.queue.broker_name or one.store_host, one.queue.queue_id, one.queue_offset,
             show_moment(one.store_time), one.tags, " ".join(one.keys), one.body.decode(errors="replace")[:SHOWN])
            for one in sorted(found, key=lambda message: message.store_time)
        ]  # fmt: skip
        print_table(["id", "broker", "queue", "offset", "stored", "tags", "keys", "body"], rows, "no message was found")

    Session(namesrv, profile).run(work)


def _place(topic: str, text: str) -> tuple[MessageQueue, int]:
    try:
        broker, queue, offset = text.rsplit(":", 2)
        return MessageQueue(topic, broker, int(queue)), int(offset)
    except ValueError:
        raise ConfigError(f"{text}: give a queue as broker:queue, a place as broker:queue:offset") from None


async def _by_time(admin: Admin, topic: str, begin: int, end: int, limit: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    for queue in await admin.queues(topic):
        offset, last = await admin.search_offset(queue, begin), await admin.max_offset(queue)
        offset = max(offset, await admin.min_offset(queue))
        while offset < last and len(found) < limit:
            messages, following = await admin.read(queue, offset, min(32, limit - len(found)))
            wanted = [one for one in messages if begin <= one.store_time <= end]
            found += wanted
            if following <= offset or len(wanted) < len(messages):
                break
            offset = following
    return found


@app.command("track")
def track(
    topic: Topic, message_id: Id, as_json: Json = False, namesrv: Namesrv = None, profile: Profile = None
) -> None:
    """Show which groups have consumed a message."""

    async def work(admin: Admin) -> None:
        tracks = await admin.track(await find_one(admin, topic, message_id))
        if as_json:
            print_json(tracks)
        else:
            rows = [(one.group, one.state.name, one.error or one.state.value) for one in tracks]
            print_table(["group", "state", "meaning"], rows, f"no group consumes {topic}")

    Session(namesrv, profile).run(work)


@app.command("resend")
def resend(
    topic: Topic,
    message_id: Id,
    yes: Yes = False,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Send a stored message again, as a new one for all groups of its topic."""
    confirm(f"Send {message_id} to all groups of {topic} again?", yes)

    async def work(admin: Admin) -> None:
        sent = await admin.resend(await find_one(admin, topic, message_id))
        print_json(sent) if as_json else print(f"{sent.status.name} {sent.message_id} {sent.offset_id}")

    Session(namesrv, profile).run(work)


@app.command("send")
def send(
    topic: Topic,
    body: Annotated[str, typer.Argument(help="the message; - reads it from standard input")],
    tags: Annotated[str | None, typer.Option(help="its tag")] = None,
    keys: Annotated[str | None, typer.Option(help="its keys, separated by blanks")] = None,
    properties: Annotated[list[str] | None, typer.Option("--property", help="name=value; more than once")] = None,
    delay_level: Annotated[int, typer.Option(help="deliver it after this delay level")] = 0,
    queue: Annotated[str | None, typer.Option(help="to this queue, broker:queue; any without it")] = None,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Send one message. `ariane send` is short for it."""
    pairs = [one.partition("=") for one in properties or ()]
    target = None if queue is None else _place(topic, f"{queue}:0")[0]
    content = sys.stdin.buffer.read() if body == "-" else body.encode()
    try:
        message = Message(
            topic,
            content,
            tags=tags,
            keys=(keys or "").split(),
            properties={name: value for name, _, value in pairs},
            delay_level=delay_level,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None

    async def work(admin: Admin) -> None:
        options = ProducerOptions.of(admin.options, {})
        async with Producer("ariane-cli", options=options) as producer:
            sent = await producer.send(message, queue=target)
        place = f"{sent.queue.broker_name} queue {sent.queue.queue_id} at {sent.queue_offset}"
        print_json(sent) if as_json else print(f"{sent.status.name} {sent.message_id} {place}")

    Session(namesrv, profile).run(work)
