"""A command: one request or response, with its header in either of RocketMQ's two serialisations.

header (JSON)    {"code":310,"language":"JAVA","version":407,"opaque":7,"flag":0,"extFields":{...}}
header (binary)  code i16 | language u8 | version i16 | opaque i32 | flag i32 | remark (i32 length, text)
                 | fields (i32 length, then pairs: i16 length, name, i32 length, value)
"""

from struct import Struct
from typing import Any, Final, TypeVar

import msgspec

from ariane.errors import ProtocolError
from ariane.protocol.codes import VERSION_4_9_7, Language
from ariane.protocol.headers.header import Header
from ariane.protocol.json_header import JsonHeader
from ariane.protocol.native import mypyc_attr

JSON: Final = 0
BINARY: Final = 1

RESPONSE: Final = 1  # bits of `flag`
ONEWAY: Final = 2

_BINARY_HEAD: Final = Struct(">hBhiii")  # code, language, version, opaque, flag, length of the remark
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")

_H = TypeVar("_H", bound=Header)


class SignedText:
    """The credentials of a request, and the values that its signature covers, joined; the body follows them."""

    __slots__ = ("access_key", "signature", "text")

    def __init__(self, access_key: str, signature: bytes, text: bytes) -> None:
        self.access_key = access_key
        self.signature = signature
        self.text = text


@mypyc_attr(acyclic=True)  # many are in flight, and none refers to itself
class Command:
    """One request or response. `fields` are the header's extension fields, always text."""

    __slots__ = (
        "_fields",
        "_raw",
        "body",
        "code",
        "flag",
        "language",
        "opaque",
        "remark",
        "serialization",
        "signed",
        "typed",
        "version",
    )

    def __init__(
        self,
        code: int,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        opaque: int = 0,
        flag: int = 0,
        remark: str | None = None,
        serialization: int = JSON,
        language: str = "PYTHON",
        version: int = VERSION_4_9_7,
        typed: object | None = None,
        raw: bytes = b"",
        signed: SignedText | None = None,
    ) -> None:
        self.code = code
        self._fields = fields
        self.typed = typed
        """The decoded fields, if the decoder produced them: a typed header, or a value of the fast decoder."""
        self._raw = raw  # the JSON header that the command was decoded from
        self.signed = signed
        """The signed values, if the fast decoder has found them; None does not mean that there is no signature."""
        self.body = body
        self.opaque = opaque
        self.flag = flag
        self.remark = remark
        self.serialization = serialization
        self.language = language
        self.version = version

    @property
    def fields(self) -> dict[str, str]:
        """The extension fields. Those of a received command must not be changed."""
        fields = self._fields
        if fields is None:
            fields = self._fields = _decode(self._raw).extFields or {} if self._raw else {}
        return fields

    def wire_size(self) -> int:
        """The approximate size of the request in bytes."""
        header = len(self._raw) or sum(len(name) + len(value) for name, value in self.fields.items())
        return header + len(self.body)

    def wire_fields(self) -> dict[str, str]:
        """The extension fields as a signature covers them: like `fields`, but a JSON null is included as `null`."""
        if not self._raw or (fields := _nulls_as_text(self._raw)) is None:
            return self.fields
        return fields

    def parsed(self, kind: type[_H]) -> _H:
        """The fields as a typed header; ResponseError when one is missing or malformed."""
        typed = self.typed
        if typed is not None and type(typed) is kind:
            return typed
        return kind.parse(self.fields)

    @property
    def is_response(self) -> bool:
        return self.flag & RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & ONEWAY != 0

    def reply(
        self, code: int = 0, fields: dict[str, str] | None = None, body: bytes = b"", remark: str | None = None
    ) -> "Command":
        """Make the response to this request: same opaque, same serialisation."""
        return Command(
            code,
            fields,
            body,
            opaque=self.opaque,
            flag=RESPONSE,
            remark=remark,
            serialization=self.serialization,
        )

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "one-way" if self.is_oneway else "request"
        fields = {name: "..." if "secret" in name.lower() else value for name, value in self.fields.items()}
        return (
            f"<{kind} {self.code} #{self.opaque} {str(fields)[:500]} +{len(self.body)} B {(self.remark or '')[:500]}>"
        )


_decode_json: Final = msgspec.json.Decoder(JsonHeader).decode
_encode_json: Final = msgspec.json.Encoder().encode


def decode_header(serialization: int, header: bytes) -> Command:
    """Decode a header; ProtocolError for anything else."""
    if serialization == JSON:
        return _from_json(header)
    if serialization == BINARY:
        return _from_binary(header)
    raise ProtocolError(f"unknown header serialisation {serialization}")


def _from_json(header: bytes) -> Command:
    h = _decode(header)
    return Command(
        h.code,
        h.extFields,
        opaque=h.opaque,
        flag=h.flag,
        remark=h.remark,
        language=h.language,
        version=h.version,
        raw=header,
    )


def _decode(header: bytes) -> JsonHeader:
    try:
        return _decode_json(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _lenient(header)


def _nulls_as_text(header: bytes) -> dict[str, str] | None:
    """The fields of a header that has nulls among them; None for any other."""
    if b"null" not in header:
        return None
    try:
        raw: Any = msgspec.json.decode(header)
        return {str(k): "null" if v is None else _text(v) for k, v in (raw.get("extFields") or {}).items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # in members that no command has
        raise ProtocolError(f"header is not a JSON command: {error}") from None


def _lenient(header: bytes) -> JsonHeader:
    """Accept numbers and nulls among the extension fields, and the language as a number, as some clients write them.

    Numbers may be texts and whole ones may have an exponent, as for the decoder of hot headers.
    """
    try:
        raw: Any = msgspec.json.decode(header)
        fields = {str(k): _text(v) for k, v in (raw.get("extFields") or {}).items() if v is not None}
        language = raw.get("language", "OTHER")
        raw["extFields"] = fields
        raw["language"] = language_name(language) if isinstance(language, int) else str(language)
        h = msgspec.convert(raw, JsonHeader, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, AttributeError, TypeError, RecursionError) as error:
        raise ProtocolError(f"header is not a JSON command: {error}") from None
    return h


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # 2e4 is a whole number to the decoder of typed headers
    return value if isinstance(value, str) else str(value)


def language_name(number: int) -> str:
    """The name of a language number; OTHER for an unknown one."""
    return Language(number).name if 0 <= number <= Language.RUST else "OTHER"


def _from_binary(header: bytes) -> Command:
    try:
        code, language, version, opaque, flag, remark_length = _BINARY_HEAD.unpack_from(header)
        at = _BINARY_HEAD.size
        remark, at = _take(header, at, remark_length)
        (fields_length,) = _I32.unpack_from(header, at)
        at += 4
        if fields_length < 0 or at + fields_length > len(header):
            raise ProtocolError(f"fields of {fields_length} bytes do not fit the header")
        fields = _binary_fields(header, at, at + fields_length)
    except Exception as error:
        raise error if isinstance(error, ProtocolError) else ProtocolError(f"torn binary header: {error}") from None
    return Command(
        code,
        fields,
        opaque=opaque,
        flag=flag,
        remark=remark or None,
        serialization=BINARY,
        language=language_name(language),
        version=version,
    )


def _take(header: bytes, at: int, length: int) -> tuple[str, int]:
    if length < 0 or at + length > len(header):
        raise ProtocolError(f"a text of {length} bytes does not fit the header")
    return header[at : at + length].decode(), at + length


def _binary_fields(header: bytes, at: int, end: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    while at < end:
        name, at = _take(header, at + 2, _I16.unpack_from(header, at)[0])
        value, at = _take(header, at + 4, _I32.unpack_from(header, at)[0])
        fields[name] = value
    return fields


def encode_header(command: Command) -> bytes:
    """Encode the header in the command's serialisation.

    A response may quote anything: characters that UTF-8 has no bytes for become `?`. A request with such characters
    raises UnicodeEncodeError.
    """
    try:
        return _to_json(command) if command.serialization == JSON else _to_binary(command)
    except UnicodeEncodeError:
        if not command.is_response:
            raise
        clean = Command(
            command.code,
            {_encodable(name): _encodable(value) for name, value in command.fields.items()},
            opaque=command.opaque,
            flag=command.flag,
            remark=None if command.remark is None else _encodable(command.remark),
            serialization=command.serialization,
            language=command.language,
            version=command.version,
        )
        return _to_json(clean) if command.serialization == JSON else _to_binary(clean)


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _to_json(c: Command) -> bytes:
    header: dict[str, object] = {"code": c.code}
    if c.fields and not c.is_response:
        header["extFields"] = c.fields  # in the order of Apache's clients: brokers recognise the shape of a request
    header["flag"] = c.flag
    header["language"] = c.language
    header["opaque"] = c.opaque
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = c.version
    if c.fields and c.is_response:
        header["extFields"] = c.fields
    if c.remark is not None:
        header["remark"] = c.remark
    return _encode_json(header)


def _to_binary(c: Command) -> bytes:
    remark = (c.remark or "").encode()
    parts: list[bytes] = []
    for name, value in c.fields.items():
        key, text = name.encode(), value.encode()
        parts += (_I16.pack(len(key)), key, _I32.pack(len(text)), text)
    fields = b"".join(parts)
    language = Language[c.language] if c.language in Language.__members__ else Language.OTHER
    head = _BINARY_HEAD.pack(c.code, language, c.version, c.opaque, c.flag, len(remark))
    return head + remark + _I32.pack(len(fields)) + fields
