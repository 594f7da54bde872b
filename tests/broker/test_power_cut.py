"""A broker whose disk loses what was not synced, is full, or lacks a table: nothing acknowledged is skipped."""

import asyncio
import errno
from pathlib import Path

from ariane.env import Env
from ariane.message import HALF_TOPIC, PRODUCER_GROUP, TRANSACTION_PREPARED, UNIQUE_KEY
from ariane.protocol.codes import RequestCode
from ariane.protocol.headers import EndTransactionRequest
from ariane.protocol.ids import parse_offset_id
from ariane.protocol.properties import encode_properties
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from ariane.testing.faults import MemoryFiles
from tests.broker.talk import Talk, settled, small_broker

STORE = Path("/store")
HALF = encode_properties({TRANSACTION_PREPARED: "true", PRODUCER_GROUP: "producers", UNIQUE_KEY: "K1"})
CHECKER = "CID_RMQ_SYS_TRANS"


async def test_offsets_moved_back_after_lost_messages_are_saved_before_new_messages_take_their_places() -> None:
    files = MemoryFiles()
    slow = {
        "flushDiskType": "ASYNC_FLUSH",
        "flushIntervalCommitLog": 600_000,
        "flushCommitLogThoroughInterval": 6_000_000,
    }
    first = small_broker(STORE, env=Env(files=files), **slow)
    await first.start()
    talk = Talk(first)
    for _ in range(10):
        await talk.send_ok("orders", b"lost", queue_id=0)
    first.offsets.commit("group", "orders", 0, 10)
    await first.persistence.offsets.save()
    cut = files.after_power_cut()
    second = small_broker(STORE, env=Env(files=cut))
    await second.start()
    again = Talk(second)
    for _ in range(15):
        await again.send_ok("orders", b"new", queue_id=0)
    killed = cut.after_kill()
    third = small_broker(STORE, env=Env(files=killed))
    await third.start()
    assert (third.store.max_offset("orders", 0), third.offsets.get("group", "orders", 0)) == (15, 0)
    for one in (talk, again):
        await one.client.close()
    for broker in (first, second, third):
        await broker.stop()


async def test_a_half_message_is_asked_about_after_a_power_cut_took_its_copy() -> None:
    files = MemoryFiles()
    options = {
        "flushDiskType": "SYNC_FLUSH",
        "transactionTimeOut": 100,
        "transactionCheckInterval": 100,
        "transactionCheckMax": 100_000,  # the producer may be slow to come back
    }
    first = small_broker(STORE, env=Env(files=files), **options)
    await first.start()
    talk = Talk(first)
    await talk.heartbeat(producer="producers")
    born = first.env.clock.now_ms()
    await talk.send_ok("orders", b"pay", properties=HALF, sys_flag=4, born_timestamp=born)
    await settled(lambda: first.offsets.get(CHECKER, HALF_TOPIC, 0) > 0 and not first.offsets.has_changes)
    cut = files.after_power_cut()
    second = small_broker(STORE, env=Env(files=cut), **options)
    await second.start()
    again = Talk(second)
    await again.heartbeat(producer="producers")
    await settled(lambda: any(r.code == RequestCode.CHECK_TRANSACTION_STATE for r in again.received))
    for one in (talk, again):
        await one.client.close()
    for broker in (first, second):
        await broker.stop()


async def test_a_second_transaction_with_the_same_key_is_one_of_its_own(tmp_path: Path) -> None:
    broker = small_broker(tmp_path)
    await broker.start()
    talk = Talk(broker)
    for number, verdict in enumerate((TRANSACTION_ROLLBACK, TRANSACTION_COMMIT)):
        born = broker.env.clock.now_ms() + number
        sent = await talk.send_ok(
            "orders", b"pay %d" % number, queue_id=0, properties=HALF, sys_flag=4, born_timestamp=born
        )
        offset = parse_offset_id(sent.fields["msgId"])[1]
        end = EndTransactionRequest(
            "producers", int(sent.fields["queueOffset"]), offset, verdict, "K1", transaction_id="K1"
        )
        assert (await talk.ask(RequestCode.END_TRANSACTION, end.fields())).code == 0
    await asyncio.sleep(0)
    assert [unit.body for unit in await talk.units("orders", 0)] == [b"pay 1"]
    await talk.client.close()
    await broker.stop()


async def test_a_topic_that_could_not_be_written_keeps_the_offsets_of_its_messages() -> None:
    files = MemoryFiles()
    first = small_broker(STORE, env=Env(files=files))
    await first.start()
    talk = Talk(first)
    files.fail("write", errno.ENOSPC, part="topics.json")
    for _ in range(10):
        await talk.send("orders", b"stored", queue_id=0)
    first.offsets.commit("group", "orders", 0, 7)
    await first.persistence.offsets.append()
    second = small_broker(STORE, env=Env(files=files.after_kill()))
    await second.start()
    second._pruning.run()
    assert second.offsets.get("group", "orders", 0) == 7
    await talk.client.close()
    await second.stop()
