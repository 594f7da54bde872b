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


class RegisterBrokerResponse(Header):
    ha_server_addr: str | None = None
    master_addr: str | None = None


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
