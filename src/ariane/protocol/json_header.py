"""The JSON form of a header. A module of its own, because msgspec reads its annotations, which compiling erases."""

import msgspec


class JsonHeader(msgspec.Struct, gc=False):
    """Names and defaults as RocketMQ's peers write them."""

    code: int
    opaque: int = 0
    flag: int = 0
    version: int = 0
    language: str = "OTHER"
    remark: str | None = None
    extFields: dict[str, str] | None = None
