"""Headers of users' filters: RocketMQ's requests of filter servers, and Ariane's own about uploaded modules."""

import msgspec

from ariane.protocol.headers.header import Header, Int32, Int64


class RegisterMessageFilterClassRequest(Header):
    """A consumer uploads its filter. RocketMQ's has the first four fields, and Java source for a body."""

    consumer_group: str
    topic: str
    class_name: str
    class_crc: Int32 = msgspec.field(name="classCRC")
    sha256: str | None = None
    filter_server: bool = False
    """Filter servers run it, not the broker."""


class RegisterFilterServerRequest(Header):
    filter_server_addr: str


class RegisterFilterServerResponse(Header):
    broker_name: str
    broker_id: Int64


class FilterOfGroupRequest(Header):
    """GET_FILTER and REMOVE_FILTER: the filter of a group for a topic."""

    consumer_group: str
    topic: str
