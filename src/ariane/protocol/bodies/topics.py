"""Bodies about topics: their configuration, what a broker registers, and routes to them."""

import zlib
from struct import Struct

import msgspec

from ariane.errors import ProtocolError, TooLarge
from ariane.protocol.bodies.body import Body

_I32 = Struct(">i")
LARGEST_REGISTRATION = 16 * 1024 * 1024
"""Bytes of a registration, decompressed: room for 200,000 topics."""

READ = 4  # bits of a permission
WRITE = 2
INHERIT = 1
UNIT = 1  # bits of a topic's sys flag
UNIT_SUB = 2


class DataVersion(Body):
    """The version of a table; equal versions mean equal tables."""

    timestamp: int = 0
    counter: int = 0


class TopicConfig(Body):
    """The queues of a topic on a broker, and their permissions."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = READ | WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False

    def as_text(self) -> str:
        """The form of a compressed registration: five words."""
        return f"{self.topic_name} {self.read_queue_nums} {self.write_queue_nums} {self.perm} {self.topic_filter_type}"

    @classmethod
    def from_text(cls, text: str) -> "TopicConfig":
        try:
            name, read, write, perm, filter_type = text.split(" ")[:5]
            return cls(name, int(read), int(write), int(perm), filter_type)
        except ValueError:
            raise ProtocolError(f"not a topic configuration: {text[:100]!r}") from None


class TopicConfigTable(Body):
    """All topics of a broker: topics.json, GET_ALL_TOPIC_CONFIG, and the inside of a registration."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = {}


class RegisterBrokerBody(Body):
    """The registration of a broker at a name server."""

    topic_config_serialize_wrapper: TopicConfigTable = msgspec.field(default_factory=TopicConfigTable)
    filter_server_list: list[str] = []

    def compress(self) -> bytes:
        """Encode the compressed form: data version, topics as text, filter servers, each preceded by its length."""
        table = self.topic_config_serialize_wrapper
        topics = [config.as_text().encode() for config in table.topic_config_table.values()]
        parts = [_sized(table.data_version.encode()), _I32.pack(len(topics)), *map(_sized, topics)]
        return zlib.compress(b"".join([*parts, _sized(msgspec.json.encode(self.filter_server_list))]), 9)

    @classmethod
    def decompress(cls, body: bytes, max_bytes: int = LARGEST_REGISTRATION) -> "RegisterBrokerBody":
        """Read the compressed form; ProtocolError when it is not one, or has more than `max_bytes` decompressed."""
        reader = _SizedReader(_inflate(body, max_bytes))
        version = DataVersion.decode(reader.take())
        try:
            configs = [TopicConfig.from_text(reader.take().decode()) for _ in range(reader.number())]
            filters = msgspec.json.decode(reader.take() or b"[]", type=list[str])
        except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
            raise ProtocolError(f"bad text in a registration: {error}") from None
        table = TopicConfigTable(version, {config.topic_name: config for config in configs})
        return cls(table, filters)


def _sized(data: bytes) -> bytes:
    return _I32.pack(len(data)) + data


def _inflate(body: bytes, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise ProtocolError(f"registration is not compressed as it says: {error}") from None
    if len(data) > max_bytes:
        raise TooLarge(f"registration has more than {max_bytes} bytes when decompressed")
    return data


class _SizedReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        if self._at + 4 > len(self._data):
            raise ProtocolError("registration ends too early")
        (value,) = _I32.unpack_from(self._data, self._at)
        self._at += 4
        return int(value)

    def take(self) -> bytes:
        length = self.number()
        if length < 0 or self._at + length > len(self._data):
            raise ProtocolError(f"a part of {length} bytes does not fit the registration")
        self._at += length
        return self._data[self._at - length : self._at]


class QueueData(Body):
    """The queues of one topic on one broker."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0


class BrokerData(Body):
    """A broker name and its addresses by id; id 0 is the master."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str]
    enable_acting_master: bool = False


class TopicRouteData(Body):
    """The route of a topic: its queues and their brokers."""

    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None

    def encode(self) -> bytes:
        members = msgspec.to_builtins(self, str_keys=True)
        if self.order_topic_conf is None:
            del members["orderTopicConf"]
        return msgspec.json.encode(members)


class ClusterInfo(Body):
    """All brokers by name, and their names by cluster."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class TopicList(Body):
    topic_list: list[str] = []
    broker_addr: str | None = None


class KVTable(Body):
    table: dict[str, str] = {}
