"""The base of typed headers: parsed from a command's fields, and written back."""

from typing import Annotated, Self

import msgspec

from ariane.errors import ResponseError
from ariane.protocol.codes import ResponseCode

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Header(msgspec.Struct, rename="camel", gc=False):
    """A typed header. Fields are sent as text under camel-case names; None is not sent.

    >>> from ariane.protocol.headers import GetMaxOffsetRequest
    >>> GetMaxOffsetRequest.parse({"topic": "orders", "queueId": "3"})
    GetMaxOffsetRequest(topic='orders', queue_id=3)
    """

    @classmethod
    def parse(cls, fields: dict[str, str]) -> Self:
        """Parse the header; a missing or malformed field is a SYSTEM_ERROR, as in Apache's servers."""
        try:
            return msgspec.convert(fields, cls, strict=False)
        except msgspec.ValidationError as error:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"bad request header for {cls.__name__}: {error}") from None

    def fields(self) -> dict[str, str]:
        """The header as a command's fields."""
        fields: dict[str, str] = {}
        for attribute, name in zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True):
            value = getattr(self, attribute)
            if value is not None:
                fields[name] = ("true" if value else "false") if isinstance(value, bool) else str(value)
        return fields
