"""The quick scan of copied units finds what the general reader finds, and stops where it must not guess."""

from hypothesis import given
from hypothesis import strategies as st

from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from ariane.store.units.reading import Dispatched, read_unit
from ariane.store.units.scanning import UnitScan
from tests.ha.nodes import log_bytes, new_store
from tests.store.units import HOST, HOST_V6, unit

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


@given(_MESSAGES, st.data())
def test_scan_and_general_reader_agree(
    messages: list[tuple[str, int, bytes, dict[str, str], bytes, int]], more: st.DataObject
) -> None:
    store = new_store()
    for topic, queue_id, body, properties, host, sys_flag in messages:
        made = unit(topic, body, queue_id=queue_id, host=host, **properties)
        made.sys_flag |= sys_flag
        store.append(made)
    store.dispatch_now()
    data = log_bytes(store)
    if data and more.draw(st.booleans()):
        at = more.draw(st.integers(0, len(data) - 1))
        data = data[:at] + bytes((more.draw(st.integers(0, 255)),)) + data[at + 1 :]
    data = data[: more.draw(st.integers(0, len(data)))]
    found: list[Dispatched] = []
    end = UnitScan(store.table).scan(data, 0, 4096, found)
    at = 0
    for message in found:
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
    found: list[Dispatched] = []
    assert UnitScan(store.table).scan(log_bytes(store), 0, 4096, found) == first.end_offset
    copy = new_store()
    assert copy.append_raw(0, log_bytes(store))
    copy.dispatch_now()
    assert copy.max_offset("orders", 0) == 3
