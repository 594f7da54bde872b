"""The headers of the most frequent requests, decoded from JSON without an intermediate dict.

A module of its own, because msgspec reads its annotations, which compiling erases. A peer's JSON starts with the code,
so the first bytes tell which type to expect; any other header is left to the general decoder.
"""

from collections.abc import Callable
from typing import Final, cast

import msgspec

from ariane.protocol.codes import RequestCode
from ariane.protocol.headers.consume import PullMessageRequest, UpdateConsumerOffsetRequest
from ariane.protocol.headers.header import Header
from ariane.protocol.headers.send import SendMessageRequest, SendMessageRequestV2

PREFIX: Final = 12  # bytes that tell the code: up to three digits and what follows them


class HotHeader(msgspec.Struct, gc=False):
    """The JSON form of a request whose fields are typed already."""

    code: int
    extFields: Header
    opaque: int = 0
    flag: int = 0
    version: int = 0
    language: str = "OTHER"
    remark: str | None = None


_TYPES: dict[RequestCode, type[Header]] = {
    RequestCode.SEND_MESSAGE: SendMessageRequest,
    RequestCode.SEND_MESSAGE_V2: SendMessageRequestV2,
    RequestCode.SEND_BATCH_MESSAGE: SendMessageRequestV2,
    RequestCode.PULL_MESSAGE: PullMessageRequest,
    RequestCode.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffsetRequest,
}


def _decoder(kind: type[Header]) -> Callable[[bytes], HotHeader]:
    form = msgspec.defstruct("HotHeader", [("extFields", kind)], bases=(HotHeader,), kw_only=True, gc=False)
    decoder: msgspec.json.Decoder[HotHeader] = msgspec.json.Decoder(cast(type[HotHeader], form), strict=False)
    return decoder.decode


HOT_HEADERS: Final[dict[bytes, Callable[[bytes], HotHeader]]] = {
    f'{{"code":{code:d},"'.encode()[:PREFIX]: _decoder(kind) for code, kind in _TYPES.items()
}
