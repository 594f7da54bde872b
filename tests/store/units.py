"""Messages for store tests."""

from collections.abc import Iterable

from ariane.protocol.batch import BatchItem, encode_batch
from ariane.protocol.ids import pack_host
from ariane.protocol.properties import encode_properties
from ariane.protocol.units import Unit, decode_units
from ariane.store import GetResult, GetStatus, MessageStore

HOST = pack_host("127.0.0.1", 10911)
HOST_V6 = pack_host("::1", 10911)


def unit(
    topic: str = "orders", body: bytes = b"paid", *, queue_id: int = 0, host: bytes = HOST, **properties: str
) -> Unit:
    """A message as the broker hands it to the store."""
    text = encode_properties(properties).encode()
    return Unit(topic.encode(), body, text, queue_id=queue_id, born_time=1, born_host=host, store_host=host)


def batch(messages: Iterable[Unit]) -> Unit:
    """Messages of one queue as the broker hands them to the store when they came in one request."""
    units = list(messages)
    body = encode_batch([BatchItem(u.flag, u.body, u.properties) for u in units])
    first = units[0]
    return Unit(
        first.topic,
        body,
        queue_id=first.queue_id,
        born_time=first.born_time,
        born_host=first.born_host,
        store_host=first.store_host,
    )


def fill(store: MessageStore, count: int, topic: str = "orders", queues: int = 1, size: int = 0) -> None:
    """Append `count` messages with bodies that say which they are, and dispatch them."""
    for n in range(count):
        body = f"m{n}".encode().ljust(size, b".")
        result = store.append(
            unit(topic, body, queue_id=n % queues, TAGS=f"T{n % 3}", KEYS=f"k{n}", UNIQ_KEY=f"U{n:06d}")
        )
        assert result.status.name == "OK", result
    store.dispatch_now()


def bodies(result: GetResult) -> list[bytes]:
    """The bodies of a pull's messages, without padding."""
    return [u.body.rstrip(b".") for u in units_of(result.slices)]


def units_of(slices: Iterable[memoryview]) -> list[Unit]:
    return [u for part in slices for u in decode_units(part)]


def read_all(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[Unit]:
    """All messages of a queue, checked for the order of their offsets."""
    found: list[Unit] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.get(topic, queue_id, offset, 32)
        assert result.status in (GetStatus.FOUND, GetStatus.MESSAGE_WAS_REMOVING), result
        found += units_of(result.slices)
        offset = result.next_offset
    assert [u.queue_offset for u in found] == list(range(found[0].queue_offset if found else 0, offset))
    return found
