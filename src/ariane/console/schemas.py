"""Bodies as JSON by the schema of their topic: Avro, or Protobuf with the package `protobuf`."""

import json
from typing import Any, Final, Protocol

from ariane.console.avro import AvroReader
from ariane.console.config_file import FILE, ConfigFile, SchemaOptions
from ariane.errors import ConfigError

LARGEST: Final = 256 * 1024  # bytes of a body that is decoded


class Decoder(Protocol):
    """Turns a body into JSON."""

    def __call__(self, body: bytes) -> str: ...


class Schemas:
    """The decoders of topics."""

    def __init__(self, config: ConfigFile) -> None:
        self._kinds = {topic: "avro" if one.avro else "protobuf" for topic, one in config.schemas.items()}
        self._decoders = {topic: _decoder(config, topic, one) for topic, one in config.schemas.items()}

    def decode(self, topic: str, body: bytes) -> tuple[str, str] | None:
        """The kind of a body and its JSON, or why it could not be decoded; None for a topic without a schema."""
        decoder = self._decoders.get(topic)
        if decoder is None:
            return None
        kind = self._kinds[topic]
        if len(body) > LARGEST:
            return kind, f"the body has {len(body)} bytes: only up to {LARGEST} are decoded"
        try:
            return kind, decoder(body)
        except ValueError as error:
            return kind, f"the body does not fit the schema: {error}"


def _decoder(config: ConfigFile, topic: str, options: SchemaOptions) -> Decoder:
    path = config.folder / (options.avro or options.protobuf)
    try:
        content = path.read_bytes()
        decode = _avro(content) if options.avro else _protobuf(content, options.message)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{FILE}: schemas.{topic}: {path}: {error}") from None
    return lambda body: decode(body[options.skip :])


def _avro(content: bytes) -> Decoder:
    reader = AvroReader(json.loads(content))
    return lambda body: json.dumps(reader.read(body), indent=2, ensure_ascii=False)


def _protobuf(content: bytes, message: str) -> Decoder:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
        from google.protobuf.message import DecodeError
    except ImportError:
        raise ConfigError("bodies in Protobuf need a package: pip install 'ariane[protobuf]'") from None
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content)
        pool = descriptor_pool.DescriptorPool()
        for one in files.file:
            pool.Add(one)
        kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
    except (DecodeError, TypeError) as error:
        raise ValueError(f"not a file of descriptors: {error}") from None

    def decode(body: bytes) -> str:
        try:
            found = kind.FromString(body)
        except DecodeError as error:
            raise ValueError(str(error)) from None
        text: str = json_format.MessageToJson(found, preserving_proto_field_name=True, ensure_ascii=False)
        return text

    return decode
