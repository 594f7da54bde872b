"""From what the store says of a put to what the client is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ariane.errors import ResponseError
from ariane.protocol.codes import ResponseCode
from ariane.store import STORED, PutStatus

if TYPE_CHECKING:
    from ariane.broker.server import Broker

_KEPT: Final = {
    PutStatus.OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
}
_FAILED: Final = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_TOO_LONG: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}


def is_kept(status: PutStatus) -> bool:
    """Whether the message is in the log, though perhaps not everywhere it was promised to be."""
    return status in STORED


def response_code(status: PutStatus) -> int:
    """The code that answers a put."""
    return _KEPT[status] if status in _KEPT else _FAILED.get(status, ResponseCode.SYSTEM_ERROR)


def failure(broker: Broker, status: PutStatus) -> ResponseError:
    """The error that answers a put which did not happen, in RocketMQ's words."""
    return ResponseError(response_code(status), _remark(broker, status))


def _remark(broker: Broker, status: PutStatus) -> str:
    if status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_TOO_LONG):
        return (
            "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
            f"{broker.options.max_message_size}B, msg properties length limit 32KB."
        )
    if status is PutStatus.SERVICE_NOT_AVAILABLE:
        return (
            "service not available now. It may be caused by one of the following reasons: the broker's disk is full "
            f"[{_disk(broker)}], messages are put to the slave, message store has been shut down, etc."
        )
    if status is PutStatus.CREATE_FILE_FAILED:
        return "create mapped file failed, server is busy or broken."
    if status is PutStatus.OS_PAGE_CACHE_BUSY:
        return "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
    return str(status.value)


def _disk(broker: Broker) -> str:
    used = broker.env.files.usage(Path(broker.options.store_path_root_dir)).used_ratio
    return f"CL: {used:5.2f} CQ: {used:5.2f} INDEX: {used:5.2f}"
