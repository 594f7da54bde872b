"""Every request that a broker answers has a rule of access control."""

from pathlib import Path

from ariane.broker.acl.table import broker_rules
from ariane.protocol.codes import (
    BROKER_PROMOTED,
    GET_FILTER,
    GET_FILTER_LIST,
    PROMOTE_BROKER,
    REMOVE_FILTER,
    RESEND_DEAD_LETTERS,
    RequestCode,
)
from tests.broker.talk import small_broker

# What Apache's 4.9.7 broker answers, by the registration of its processors.
ANSWERED_BY_APACHE = {
    *(10, 11, 12, 14, 15, 17, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45, 46),
    *(50, 51, 52, 53, 54, 200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 300, 303, 305, 306, 307, 308, 309, 310),
    *(314, 315, 316, 317, 320, 321, 323, 324, 325, 328, 329),
}


def test_no_request_is_answered_without_a_rule(tmp_path: Path) -> None:
    answered = set(small_broker(tmp_path).handlers)
    assert answered - set(broker_rules()) == set()


def test_no_rule_is_for_a_request_that_nobody_answers(tmp_path: Path) -> None:
    assert set(broker_rules()) - set(small_broker(tmp_path).handlers) == set()


def test_every_request_that_apache_answers_is_answered(tmp_path: Path) -> None:
    answered = set(small_broker(tmp_path).handlers)
    assert {RequestCode(code).name for code in ANSWERED_BY_APACHE - answered} == set()
    assert answered - ANSWERED_BY_APACHE == {
        RESEND_DEAD_LETTERS,
        PROMOTE_BROKER,
        BROKER_PROMOTED,
        GET_FILTER_LIST,
        GET_FILTER,
        REMOVE_FILTER,
        RequestCode.REGISTER_MESSAGE_FILTER_CLASS,
        RequestCode.REGISTER_FILTER_SERVER,
        RequestCode.GET_TOPIC_CONFIG,
    }
