"""Where a message goes that a consumer sends back."""

import pytest

from ariane.broker.delay.delivery import make_delayed
from ariane.broker.retry.retries import SentBack, allowed_times, decide, original_topic, resurrected, sent_back
from ariane.broker.unit_copy import packed, properties_of
from ariane.message import DELAY, ORIGIN_MESSAGE_ID, REAL_TOPIC, RETRY_TOPIC, SCHEDULE_TOPIC, TAGS, UNIQUE_KEY, WAIT
from ariane.protocol.ids import pack_host
from ariane.protocol.units import Unit, decode_unit, encode_unit

HOST = pack_host("127.0.0.1", 10911)
AGAIN = SentBack("%RETRY%g", 3, False)
DEAD = SentBack("%DLQ%g", 0, True)


def failed(reconsume_times: int = 0) -> Unit:
    unit = Unit(b"orders", b"x", packed({TAGS: "A", UNIQUE_KEY: "u"}), reconsume_times=reconsume_times)
    unit.store_host, unit.physical_offset = HOST, 400
    return unit


@pytest.mark.parametrize(
    ("times", "asked", "limit", "where"),
    [
        (0, 0, 16, SentBack("%RETRY%g", 3, False)),
        (5, 0, 16, SentBack("%RETRY%g", 8, False)),
        (15, 0, 16, SentBack("%RETRY%g", 18, False)),
        (16, 0, 16, DEAD),
        (0, 7, 16, SentBack("%RETRY%g", 7, False)),
        (0, -1, 16, DEAD),
        (0, 0, 0, DEAD),
        (20, 0, 30, SentBack("%RETRY%g", 23, False)),
        (-(1 << 31), 0, 16, SentBack("%RETRY%g", 3, False)),
    ],
)
def test_each_failure_waits_longer_until_it_was_often_enough(
    times: int, asked: int, limit: int, where: SentBack
) -> None:
    assert decide("g", times, asked, limit) == where


def test_beyond_the_last_level_a_message_waits_at_the_last() -> None:
    unit = sent_back(failed(reconsume_times=20), decide("g", 20, 0, 30), 0)
    assert make_delayed(unit, 18) == 18


@pytest.mark.parametrize(("stated", "counted"), [((1 << 31) - 1, (1 << 31) - 1), (-(1 << 31), 1), (-1, 1)])
def test_a_number_of_failures_that_its_producer_made_up_does_not_stop_it(stated: int, counted: int) -> None:
    unit = sent_back(failed(reconsume_times=stated), AGAIN, 0)
    assert unit.reconsume_times == counted
    assert decode_unit(encode_unit(unit)).reconsume_times == counted


def test_new_clients_say_how_often_old_ones_follow_the_group() -> None:
    assert allowed_times(16, 407, 3) == 3
    assert allowed_times(16, 100, 3) == 16
    assert allowed_times(16, 407, None) == 16


def test_a_message_sent_back_remembers_where_it_came_from() -> None:
    unit = sent_back(failed(reconsume_times=1), AGAIN, 0)
    properties = properties_of(unit)
    assert (unit.topic, unit.reconsume_times, unit.body) == (b"%RETRY%g", 2, b"x")
    assert properties[RETRY_TOPIC] == "orders"
    assert properties[ORIGIN_MESSAGE_ID] == "7F00000100002A9F0000000000000190"
    assert (properties[DELAY], properties[WAIT], properties[TAGS]) == ("3", "false", "A")
    assert make_delayed(unit, 18) == 3


def test_a_second_failure_keeps_the_first_origin() -> None:
    first = sent_back(failed(), AGAIN, 0)
    first.physical_offset = 9_999
    again = properties_of(sent_back(first, AGAIN, 0))
    assert again[RETRY_TOPIC] == "orders"
    assert again[ORIGIN_MESSAGE_ID] == "7F00000100002A9F0000000000000190"


def test_a_dead_letter_is_not_delayed() -> None:
    unit = sent_back(failed(), DEAD, 0)
    assert make_delayed(unit, 18) == 0
    assert unit.topic == b"%DLQ%g"


def test_a_dead_letter_sent_again_is_a_fresh_message_of_its_topic() -> None:
    waiting = sent_back(failed(), AGAIN, 0)
    make_delayed(waiting, 18)
    dead = sent_back(waiting, DEAD, 0)
    assert original_topic(dead) == "orders"
    fresh = resurrected(dead, "orders", 1)
    properties = properties_of(fresh)
    assert (fresh.topic, fresh.queue_id, fresh.reconsume_times, fresh.body) == (b"orders", 1, 0, b"x")
    assert properties == {TAGS: "A", UNIQUE_KEY: "u", ORIGIN_MESSAGE_ID: "7F00000100002A9F0000000000000190"}
    assert (waiting.topic, REAL_TOPIC in properties_of(waiting)) == (SCHEDULE_TOPIC.encode(), True)


def test_a_letter_without_an_honest_origin_has_none() -> None:
    assert original_topic(failed()) is None
    assert original_topic(Unit(b"%DLQ%g", b"", packed({RETRY_TOPIC: "../../etc"}))) is None
