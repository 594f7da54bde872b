"""When a broker says that it is busy, and when it stops groups to protect itself."""

from datetime import datetime

import pytest

from ariane.broker.read_cycle import ReadCycle
from ariane.broker.send.flow import FlowControl
from ariane.broker.server import Broker
from ariane.env import Env, ManualClock
from ariane.errors import ResponseError
from ariane.protocol.bodies import KVTable
from ariane.protocol.codes import RequestCode, ResponseCode
from tests.broker.conftest import Starter
from tests.broker.talk import Talk

Flow = tuple[FlowControl, ReadCycle, ManualClock]


@pytest.fixture
async def flow(talk_to: Starter) -> Flow:
    clock = ManualClock()
    broker: Broker = (await talk_to(env=Env(clock=clock))).broker
    return broker.flow, broker.cycle, clock


def busy(flow: FlowControl, last_read: float) -> str:
    with pytest.raises(ResponseError) as refused:
        flow.check(last_read)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    return refused.value.remark


async def test_a_request_that_waited_too_long_is_not_served(flow: Flow) -> None:
    control, cycle, clock = flow
    began = clock.monotonic()
    clock.advance(0.15)
    cycle.begin(clock.monotonic())
    control.check(began)
    cycle.end()
    clock.advance(0.1)
    cycle.begin(clock.monotonic())
    assert busy(control, began) == (
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 250ms, size of queue: 0"
    )
    control.check(clock.monotonic())


async def test_a_put_of_more_than_a_second_gives_the_page_cache_time(
    flow: Flow,
) -> None:
    control, cycle, clock = flow
    cycle.begin(clock.monotonic())
    control.check(clock.monotonic())
    cycle.puts += 1
    clock.advance(1.5)
    cycle.end()
    cycle.begin(clock.monotonic())
    assert busy(control, clock.monotonic()).startswith(
        "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while"
    )
    cycle.end()
    clock.advance(1.6)
    cycle.begin(clock.monotonic())
    control.check(clock.monotonic())
    assert control.refused == {"page cache busy": 1}


async def test_how_long_messages_took_is_shown(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock))
    clock.advance(1)
    for _ in range(5):
        await talk.send_ok("orders")
    talk.broker.cycle.record(0.3)
    talk.broker.sampling.sample()
    clock.advance(70)
    talk.broker.sampling.sample()
    info = KVTable.decode((await talk.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    assert "[<=0ms]:5 " in info["putMessageDistributeTime"]
    assert "[200~500ms]:1 " in info["putMessageDistributeTime"]


async def test_totals_of_a_day_turn_over_at_midnight(talk_to: Starter) -> None:
    clock = ManualClock(start_ms=int(datetime(2026, 1, 1, 23, 59, 30).timestamp() * 1000))
    talk = await talk_to(env=Env(clock=clock))
    await talk.send_ok("orders")
    talk.broker.sampling.sample()
    clock.advance(40)
    talk.broker.sampling.sample()
    await talk.send_ok("orders")
    talk.broker.sampling.sample()
    info = KVTable.decode((await talk.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    assert (info["msgPutTotalTodayMorning"], info["msgPutTotalTodayNow"]) == ("1", "2")


async def test_a_group_far_behind_is_stopped_where_the_options_say_so(talk: Talk) -> None:
    for _ in range(5):
        await talk.send_ok("orders", b"x" * 1000)
    await talk.units("orders", max_msg_nums=1)
    talk.broker.slow_readers.disable()
    config = talk.broker.groups.get("consumers")
    assert config is not None
    assert config.consume_enable
    options = talk.broker.options.updated("disableConsumeIfConsumerReadSlowly", "true")
    talk.broker.change_options(options.updated("consumerFallbehindThreshold", "2000"))
    talk.broker.slow_readers.disable()
    assert not config.consume_enable
    assert (await talk.pull("orders")).code == ResponseCode.NO_PERMISSION


async def test_limits_of_the_store_change_while_running(talk: Talk) -> None:
    await talk.send_ok("orders", b"x" * 2000)
    talk.broker.change_options(talk.broker.options.updated("maxMessageSize", "1000"))
    assert (await talk.send("orders", b"x" * 2000)).code == ResponseCode.MESSAGE_ILLEGAL
    for _ in range(5):
        await talk.send_ok("orders", b"y")
    talk.broker.change_options(talk.broker.options.updated("maxTransferCountOnMessageInMemory", "2"))
    assert len(await talk.units("orders")) == 2
