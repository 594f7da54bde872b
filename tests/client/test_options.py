"""Options: checked at birth, and the same as keywords."""

from typing import get_type_hints

import pytest

from ariane import ClientOptions, LiteOptions, Producer, ProducerOptions, PushConsumer, PushOptions
from ariane.client.consumer.options import ConsumerKeywords, ConsumerOptions, LiteKeywords, PushKeywords
from ariane.client.options import ClientKeywords
from ariane.client.producer.options import ProducerKeywords
from ariane.errors import ClientError

PAIRS = [
    (ClientOptions, ClientKeywords),
    (ProducerOptions, ProducerKeywords),
    (ConsumerOptions, ConsumerKeywords),
    (PushOptions, PushKeywords),
    (LiteOptions, LiteKeywords),
]


@pytest.mark.parametrize(("fields", "keywords"), PAIRS)
def test_every_option_is_a_keyword_of_the_same_type(fields: type, keywords: type) -> None:
    assert get_type_hints(fields) == get_type_hints(keywords)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ProducerOptions(send_timeout=0), "send_timeout"),
        (lambda: ProducerOptions(retries=-1), "retries"),
        (lambda: PushOptions(threads=0), "threads"),
        (lambda: PushOptions(consume_batch=1025), "consume_batch"),
        (lambda: PushOptions(pull_batch=0), "pull_batch"),
        (lambda: ProducerOptions(delay_levels=0), "delay_levels"),
        (lambda: ClientOptions(access_key="only half"), "secret_key"),
    ],
)
def test_a_wrong_value_is_refused_by_name(make: object, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        make()


def test_keywords_win_over_an_options_object() -> None:
    shared = ProducerOptions(name_servers="a:1", retries=7)
    producer = Producer("g", options=shared, send_timeout=9)
    assert (producer.options.retries, producer.options.send_timeout) == (7, 9)
    consumer = PushConsumer("g", "T", print, options=PushOptions(name_servers="a:1"), threads=3)
    assert (consumer.options.addresses, consumer.options.threads) == (("a:1",), 3)


def test_an_unknown_keyword_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="colour"):
        Producer("g", colour="red")


@pytest.mark.parametrize("group", ["", " ", "a b", "g" * 256, "DEFAULT_CONSUMER"])
def test_groups_follow_rocketmqs_rules(group: str) -> None:
    with pytest.raises(ClientError, match="group"):
        Producer(group)
