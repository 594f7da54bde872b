"""The quick scan of copied units finds what the general reader finds, and stops where it must not guess."""

from hypothesis import given
from hypothesis import strategies as st

from ariane.message import SCHEDULE_TOPIC
from ariane.protocol.java import string_hash
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from ariane.store import MessageStore
from ariane.store.units.hashes import key_hash, part_hash
from ariane.store.units.reading import Dispatched, read_unit
from ariane.store.units.scanning import UnitReader
from tests.ha.nodes import log_bytes, new_store
from tests.store.units import HOST, HOST_V6, unit

Message = tuple[str, int, bytes, dict[str, str], bytes, int]

_MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["a", "orders", "a-long-topic"]),
        st.integers(0, 2),
        st.binary(max_size=40),
        st.dictionaries(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "n"]), st.text("ab ", max_size=9), max_size=4),
        st.sampled_from([HOST, HOST, HOST, HOST_V6]),
        st.sampled_from([0, 0, 0, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK]),
    ),
    max_size=12,
)


def fields(message: Dispatched) -> tuple[object, ...]:
    places = (message.queue, message.queue_offset, message.physical_offset, message.size, message.store_time)
    return (*places, message.sys_flag, message.properties, message.tags_code, message.keys, message.unique_hash)


def stored(messages: list[Message]) -> MessageStore:
    """A store with these messages."""
    store = new_store()
    for topic, queue_id, body, properties, host, sys_flag in messages:
        made = unit(topic, body, queue_id=queue_id, host=host, **properties)
        made.sys_flag |= sys_flag
        store.append(made)
    store.dispatch_now()
    return store


@given(_MESSAGES, st.data())
def test_scan_and_general_reader_agree(messages: list[Message], more: st.DataObject) -> None:
    store = stored(messages)
    data = log_bytes(store)
    if data and more.draw(st.booleans()):
        at = more.draw(st.integers(0, len(data) - 1))
        data = data[:at] + bytes((more.draw(st.integers(0, 255)),)) + data[at + 1 :]
    data = data[: more.draw(st.integers(0, len(data)))]
    units = UnitReader(store.table)
    end = units.scan(data, 0, len(data), 0, 4096)
    at = 0
    for message in units.batch:
        general = read_unit(memoryview(data), at, at, False, store.table)
        assert general is not None
        assert fields(message) == fields(general)
        at += general.size
    assert at == end


def test_scan_leaves_a_unit_with_an_ipv6_host_to_the_general_reader() -> None:
    store = new_store()
    first = store.append(unit(body=b"one"))
    store.append(unit(body=b"two", host=HOST_V6))
    store.append(unit(body=b"three"))
    store.dispatch_now()
    data = log_bytes(store)
    assert UnitReader(store.table).scan(data, 0, len(data), 0, 4096) == first.end_offset
    copy = new_store()
    assert copy.append_raw(0, log_bytes(store))
    copy.dispatch_now()
    assert copy.max_offset("orders", 0) == 3


@given(_MESSAGES, st.data())
def test_copied_units_are_dispatched_alike_with_and_without_a_listener(
    messages: list[Message], more: st.DataObject
) -> None:
    """Without a listener they are put into queues and index in one pass over the bytes."""
    source = stored(messages)
    source.append(unit(SCHEDULE_TOPIC, DELAY="3"))
    source.append(unit("orders", UNIQ_KEY="last"))
    source.dispatch_now()
    data = log_bytes(source)
    heard, quick = new_store(), new_store()
    seen: list[int] = []
    heard.add_dispatch_listener(lambda batch: seen.extend(message.physical_offset for message in batch))
    quick.add_dispatch_listener(lambda batch: None, lambda: False)
    at = 0
    while at < len(data):
        size = more.draw(st.integers(1, len(data) - at))
        for copy in (heard, quick):
            assert copy.append_raw(at, data[at:], size, gather=more.draw(st.booleans()))
            copy.dispatch_now()
        at += size
    assert dispatched(quick) == dispatched(heard)
    assert len(seen) == len(messages) + 2


def dispatched(store: MessageStore) -> tuple[object, ...]:
    """Everything that dispatch has made of the log."""
    queues = {
        (queue.topic, queue.queue_id): (queue.next_offset, queue.max_physical, queue.entries(0, 1000))
        for queue in store.table
    }
    assert store.index is not None
    index = [file.file.read(0, file.file.size) for file in store.index.files]
    return queues, index, store.dispatcher.position, store.dispatcher.last_at, store.filler.last_store_time


def test_a_listener_that_wants_nothing_still_hears_of_own_messages() -> None:
    store = new_store()
    heard: list[int] = []
    store.add_dispatch_listener(lambda batch: heard.extend(message.size for message in batch), lambda: False)
    store.append(unit())
    store.dispatch_now()
    assert len(heard) == 1


def test_each_new_queue_is_told_once() -> None:
    source, copy = new_store(), new_store()
    source.append(unit(queue_id=1))
    source.append(unit(queue_id=1))
    source.append(unit("other"))
    source.dispatch_now()
    created: list[tuple[str, int]] = []
    copy.table.on_created.append(lambda queue: created.append((queue.topic, queue.queue_id)))
    assert copy.append_raw(0, log_bytes(source), gather=False)
    assert created == [("orders", 1), ("other", 0)]


@given(st.text(st.characters(codec="ascii"), max_size=40), st.text(max_size=3))
def test_hash_of_a_part_is_that_of_java(key: str, end: str) -> None:
    text = f"<{key}{end}>".encode()
    assert part_hash(string_hash("orders#"), text, 1, len(text) - 1) == key_hash(f"orders#{key}{end}")
