"""Headers that name servers read and write."""

from ariane.protocol.headers.header import Header, Int32, Int64


class RegisterBrokerRequest(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    compressed: bool = False
    body_crc32: int = 0
    broker_epoch: Int64 | None = None
    """Ariane's own: the number of the master's term. Apache's name server ignores it."""
    enable_acting_master: bool | None = None
    """Of RocketMQ 5: while no master is registered, routes name this slave as one, for reading only."""


class RegisterBrokerResponse(Header):
    ha_server_addr: str | None = None
    master_addr: str | None = None
    broker_epoch: Int64 | None = None
    """Ariane's own: the epoch of the master at `master_addr`."""


class UnregisterBrokerRequest(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionRequest(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponse(Header):
    changed: bool


class GetRouteInfoRequest(Header):
    topic: str
    accept_standard_json_only: bool = False


class PutKVConfigRequest(Header):
    namespace: str
    key: str
    value: str


class GetKVConfigRequest(Header):
    namespace: str
    key: str


class GetKVConfigResponse(Header):
    value: str | None = None


class DeleteKVConfigRequest(Header):
    namespace: str
    key: str


class GetKVListByNamespaceRequest(Header):
    namespace: str


class WipeWritePermOfBrokerRequest(Header):
    broker_name: str


class WipeWritePermOfBrokerResponse(Header):
    wipe_topic_count: Int32


class AddWritePermOfBrokerRequest(Header):
    broker_name: str


class AddWritePermOfBrokerResponse(Header):
    add_topic_count: Int32


class DeleteTopicFromNamesrvRequest(Header):
    topic: str
    cluster_name: str | None = None


class GetTopicsByClusterRequest(Header):
    cluster: str
