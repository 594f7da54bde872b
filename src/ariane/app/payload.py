"""Payloads: Python objects to bytes and back, by type and content type.

`bytes` stay as they are, `str` is UTF-8, everything else is JSON: dicts and lists, dataclasses, pydantic models,
msgspec structs and what they contain.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

import msgspec
import pydantic_core
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from ariane.app.errors import AppError, InvalidPayload

CONTENT_TYPE: Final = "contentType"  # the property; Spring's name for it
BYTES: Final = "application/octet-stream"
TEXT: Final = "text/plain"
JSON: Final = "application/json"

Decode = Callable[[bytes], Any]


class Converter(Protocol):
    """Another way to write payloads: `Ariane(converters=[Protobuf()])`. The first that takes a type is used."""

    content_type: str
    """Messages with this content type are decoded by this converter."""

    def takes(self, kind: Any) -> bool:
        """Whether payloads of this type are encoded so."""
        ...

    def encode(self, payload: Any) -> bytes:
        """The bytes of a payload."""
        ...

    def decode(self, body: bytes, kind: Any) -> Any:
        """The payload; any exception counts as an invalid payload."""
        ...


class Payloads:
    """Encodes and decodes, by users' converters first and the built-in ones after."""

    def __init__(self, converters: Sequence[Converter] = ()) -> None:
        self._converters = tuple(converters)

    @property
    def is_plain(self) -> bool:
        """Whether only the built-in converters are there, which need no content type to decode."""
        return not self._converters

    def encode(self, payload: Any, content_type: str | None = None) -> tuple[bytes, str]:
        """Bytes and content type of a payload."""
        for converter in self._converters:
            if content_type == converter.content_type or (content_type is None and converter.takes(type(payload))):
                return converter.encode(payload), converter.content_type
        if isinstance(payload, bytes):
            return payload, content_type or BYTES
        if isinstance(payload, bytearray | memoryview):
            return bytes(payload), content_type or BYTES
        if isinstance(payload, str) and content_type != JSON:
            return payload.encode(), content_type or TEXT
        if content_type not in (None, JSON):
            known = ", ".join([JSON, TEXT, BYTES, *(converter.content_type for converter in self._converters)])
            raise AppError(
                f"no converter writes {type(payload).__name__} as {content_type!r}: use one of {known}, "
                "or add a converter with Ariane(converters=[...])"
            )
        return to_json(payload), JSON

    def decoder(self, kind: Any) -> Callable[[bytes, Mapping[str, str]], Any]:
        """A function of body and properties that gives an object of this type, or raises InvalidPayload."""
        plain = decoder_for(kind)
        converters = self._converters
        if not converters:
            return lambda body, properties: plain(body)

        def decode(body: bytes, properties: Mapping[str, str]) -> Any:
            given = properties.get(CONTENT_TYPE)
            for converter in converters:
                if given == converter.content_type or (given is None and converter.takes(kind)):
                    try:
                        return converter.decode(body, kind)
                    except Exception as error:
                        raise InvalidPayload(f"not {name_of(kind)} as {converter.content_type}: {error}") from error
            return plain(body)

        return decode


def to_json(payload: Any) -> bytes:
    """JSON of any supported object; names are those of its aliases."""
    if isinstance(payload, BaseModel):
        return payload.__pydantic_serializer__.to_json(payload, by_alias=True)
    try:
        if isinstance(payload, msgspec.Struct):
            return msgspec.json.encode(payload)
        return pydantic_core.to_json(payload, by_alias=True, fallback=_builtins)
    except (TypeError, ValueError) as error:
        raise AppError(
            f"a {type(payload).__name__} cannot be written as JSON ({error}): "
            "send str, bytes, a dict, a dataclass, a pydantic model or a msgspec struct"
        ) from error


def _builtins(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


@lru_cache(maxsize=1024)
def decoder_for(kind: Any) -> Decode:
    """The built-in way from bytes to a type."""
    if kind is bytes:
        return bytes
    if kind is str:
        return _text
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct_decoder(kind)
    try:
        validate = TypeAdapter(kind).validator.validate_json
    except PydanticSchemaGenerationError as error:
        raise AppError(
            f"{name_of(kind)} is no payload type: use str, bytes, dict, a dataclass, a pydantic model, "
            "a msgspec struct, or add a converter with Ariane(converters=[...])"
        ) from error

    def decode(body: bytes) -> Any:
        try:
            return validate(body)
        except ValidationError as error:
            problems = tuple(_problem(each) for each in error.errors(include_url=False, include_context=False))
            raise InvalidPayload(f"not {name_of(kind)}: {'; '.join(problems)}", problems) from error

    return decode


def _struct_decoder(kind: type[msgspec.Struct]) -> Decode:
    parse = msgspec.json.Decoder(kind).decode

    def decode(body: bytes) -> Any:
        try:
            return parse(body)
        except msgspec.MsgspecError as error:
            raise InvalidPayload(f"not {name_of(kind)}: {error}", (str(error),)) from error

    return decode


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidPayload(f"not text in UTF-8: {error.reason} at byte {error.start}") from error


def _problem(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {error['msg']}" if where else str(error["msg"])


def name_of(kind: Any) -> str:
    """A type as people write it."""
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a payload type, for documentation."""
    if kind is bytes:
        return {"type": "string", "format": "binary"}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return msgspec.json.schema(kind)
    return TypeAdapter(kind).json_schema()


def is_model(kind: Any) -> bool:
    """Whether a type has a name of its own in documents."""
    return isinstance(kind, type) and (issubclass(kind, BaseModel | msgspec.Struct) or is_dataclass(kind))
