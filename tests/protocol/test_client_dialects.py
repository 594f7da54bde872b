"""Bodies as clients other than the Java one write them."""

import pytest

from ariane.errors import ProtocolError
from ariane.protocol.bodies import HeartbeatData

CPP_HEARTBEAT = (
    b'{"clientID":"6712-127.0.0.1@DEFAULT","consumerDataSet":[{"consumeFromWhere":%s,"consumeType":1,'
    b'"groupName":"g","messageModel":%s,"subscriptionDataSet":[{"subString":"*","subVersion":"1794782451303",'
    b'"topic":"%%RETRY%%g"}]}]}\n'
)


def test_the_cpp_client_writes_enums_as_numbers() -> None:
    [consumer] = HeartbeatData.decode(CPP_HEARTBEAT % (b"4", b"1")).consumer_data_set
    assert consumer.consume_type == "CONSUME_PASSIVELY"
    assert consumer.message_model == "CLUSTERING"
    assert consumer.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    assert consumer.subscription_data_set[0].sub_version == 1794782451303


@pytest.mark.parametrize("body", [CPP_HEARTBEAT % (b"6", b"1"), CPP_HEARTBEAT % (b"0", b"-1"), b"[]", b"7"])
def test_a_number_that_stands_for_nothing_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        HeartbeatData.decode(body)
