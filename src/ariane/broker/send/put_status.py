"""The answer for each outcome of a put: its code, and for a failure RocketMQ's words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ariane.broker.config.live import LiveOptions
from ariane.env import Files
from ariane.errors import ResponseError
from ariane.protocol.codes import ResponseCode
from ariane.store import PutStatus

_CODES: Final = {
    PutStatus.OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_TOO_LONG: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}


def response_code(status: PutStatus) -> int:
    """The code that answers a put."""
    return _CODES.get(status, ResponseCode.SYSTEM_ERROR)


class PutFailures:
    """Words the answers to puts that did not happen."""

    def __init__(self, options: LiveOptions, files: Files) -> None:
        self._options = options
        self._files = files

    def of(self, status: PutStatus) -> ResponseError:
        """The error that answers a put with this status."""
        return ResponseError(response_code(status), self._remark(status))

    def _remark(self, status: PutStatus) -> str:
        if status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_TOO_LONG):
            return (
                "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
                f"{self._options.current.max_message_size}B, msg properties length limit 32KB."
            )
        if status is PutStatus.SERVICE_NOT_AVAILABLE:
            used = self._files.usage(Path(self._options.current.store_path_root_dir)).used_ratio
            disk = f"CL: {used:5.2f} CQ: {used:5.2f} INDEX: {used:5.2f}"
            return (
                "service not available now. It may be caused by one of the following reasons: "
                f"the broker's disk is full [{disk}], messages are put to the slave, "
                "message store has been shut down, etc."
            )
        if status is PutStatus.CREATE_FILE_FAILED:
            return "create mapped file failed, server is busy or broken."
        if status is PutStatus.OS_PAGE_CACHE_BUSY:
            return "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
        return str(status.value)
