"""What sends and pulls give back."""

from dataclasses import dataclass
from enum import Enum

import msgspec

from ariane.message import MessageQueue


class SendStatus(Enum):
    """How safe a stored message is; all but SEND_OK say that a flush or a slave was late."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class SendResult(msgspec.Struct, frozen=True):
    """A stored message. Of a batch it tells about the first message, and `message_ids` has the ids of all."""

    status: SendStatus
    message_id: str
    queue: MessageQueue
    queue_offset: int
    offset_id: str
    transaction_id: str | None = None
    region: str | None = None
    trace_on: bool = True
    message_ids: tuple[str, ...] = ()


class PullStatus(Enum):
    """What a pull found."""

    FOUND = "FOUND"
    NO_NEW = "NO_NEW_MSG"
    NO_MATCH = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


@dataclass(frozen=True, slots=True)
class PullResult:
    """A pull's answer. `body` has the message units as they lie in the commitlog, one behind the other."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    suggested_broker: int = 0


class TransactionState(Enum):
    """What became of a local transaction."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """A half message, and what its local transaction came to."""

    send: SendResult
    state: TransactionState
    error: BaseException | None = None
    """What the local transaction, or telling the broker, failed with."""
