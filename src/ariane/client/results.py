"""Results of sends, pulls and transactions."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from ariane.message import MessageQueue
from ariane.protocol.codes import ResponseCode


class SendStatus(Enum):
    """The durability of a stored message; all but SEND_OK mean that flush or replication was late."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


STORED: Final[dict[int, SendStatus]] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}
"""The response codes to a send that mean that the message is stored."""


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """A stored message. For a batch it describes the first message, and `message_ids` has the ids of all.

    Nothing in it is tracked by the garbage collector, which results made by the hundred would start each time.
    """

    status: SendStatus
    message_id: str
    queue: MessageQueue
    queue_offset: int
    offset_id: str
    transaction_id: str | None = None
    region: str | None = None
    trace_on: bool = True
    batch_ids: tuple[str, ...] = ()

    @property
    def message_ids(self) -> tuple[str, ...]:
        """The ids of all messages that were stored with this request."""
        return self.batch_ids or (self.message_id,)


class PullStatus(Enum):
    """What a pull found."""

    FOUND = "FOUND"
    NO_NEW = "NO_NEW_MSG"
    NO_MATCH = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


@dataclass(frozen=True, slots=True)
class PullResult:
    """The response to a pull. `body` has the message units as they are in the commitlog, one after the other."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    suggested_broker: int = 0


class TransactionState(Enum):
    """The outcome of a local transaction."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """A half message and the outcome of its local transaction."""

    send: SendResult
    state: TransactionState
    error: BaseException | None = None
    """The error of the local transaction, or of reporting its outcome to the broker."""
