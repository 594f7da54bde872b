"""Staging: stubs written with the user's own transaction, and handed to the sender after its commit."""

import inspect
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, event, insert
from sqlalchemy.orm import Session, SessionTransaction

from ariane.errors import GuaranteeError
from ariane.guarantee.tables import MAX_ID, StubStatus, message_stub
from ariane.message import DELAY, DELIVER_TIME, KEYS, TAGS, TIMER_DELIVER_MS, Message

ID_PROPERTY: Final = "GUARANTEE_ID"
"""The property of a message that names its stub; the id is also the last of its keys."""

_INSERT = insert(message_stub)
_REFUSED = (DELAY, DELIVER_TIME, TIMER_DELIVER_MS)
_OURS = (TAGS, KEYS, ID_PROPERTY)


def new_id(now_ms: int | None = None) -> str:
    """A new message id: its time first, so that neighbours in time are neighbours in the index."""
    return f"{time.time_ns() // 1_000_000 if now_ms is None else now_ms:012x}{secrets.token_hex(10)}"


@dataclass(frozen=True, slots=True)
class StagedMessage:
    """A message as a stub keeps it."""

    message_id: str
    topic: str
    content: bytes
    tag: str | None = None
    keys: str | None = None
    properties: str | None = None
    hash_key: str | None = None

    @classmethod
    def of(
        cls,
        topic: str,
        body: object,
        tags: str | None,
        keys: str | Iterable[str] | None,
        properties: Mapping[str, str] | None,
        hash_key: str | int | None,
        message_id: str | None,
    ) -> "StagedMessage":
        """A message to stage; bytes stay as they are, text becomes UTF-8, anything else JSON."""
        if message_id is None:
            message_id = new_id()
        elif not (message_id.isascii() and message_id.isprintable() and 0 < len(message_id) <= MAX_ID):
            raise GuaranteeError(f"message_id must be 1 to {MAX_ID} printable ASCII characters, not {message_id!r}")
        elif " " in message_id:
            raise GuaranteeError(f"message_id is a key of the message, so it has no blank: {message_id!r}")
        for name in properties or {}:
            if name in _OURS:
                raise GuaranteeError(f"property {name} is set by the guarantee: use tags=, keys= or message_id=")
            if name in _REFUSED:
                raise GuaranteeError(
                    f"property {name} delays the message, which a resender would take for a loss: "
                    "stage it when it is due, or send it without a guarantee"
                )
        given = [keys] if isinstance(keys, str) else list(keys or ())
        for key in given:
            if not key or " " in key:
                raise GuaranteeError(f"a key is not empty and has no blanks, which separate keys: {key!r}")
        staged = cls(
            message_id,
            topic,
            _encode(body),
            tags,
            " ".join(given) or None,
            msgspec.json.encode(dict(properties)).decode() if properties else None,
            None if hash_key is None else str(hash_key),
        )
        try:
            staged.message()  # what can never be sent is refused before the commit
        except ValueError as error:
            raise GuaranteeError(str(error)) from error
        return staged

    def message(self) -> Message:
        """The message to send; every send of it is alike."""
        properties: dict[str, str] = msgspec.json.decode(self.properties) if self.properties else {}
        keys = [*(self.keys or "").split(), self.message_id]
        return Message(self.topic, self.content, self.tag, keys, properties | {ID_PROPERTY: self.message_id})

    def write(self, connection: Connection, groups: Iterable[str], now: int, due: int) -> None:
        """Insert a stub for each group."""
        row = {
            "message_id": self.message_id,
            "topic": self.topic,
            "tag": self.tag,
            "keys": self.keys,
            "properties": self.properties,
            "hash_key": self.hash_key,
            "content": self.content,
            "count": 0,
            "status": int(StubStatus.UNCONFIRMED),
            "resend_time": due,
            "created": now,
        }
        connection.execute(_INSERT, [{**row, "consumer_group": group} for group in groups])


def _encode(body: object) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    if isinstance(body, str):
        return body.encode()
    try:
        return msgspec.json.encode(body)
    except TypeError as error:
        raise GuaranteeError(f"the body cannot be written as JSON: {error}; encode it to bytes yourself") from error


Deliver = Callable[[list[StagedMessage]], None]
"""Takes messages whose stubs are committed."""

_KEY = "ariane.guarantee"


class _Staged:
    """What a session has staged since its transaction began."""

    def __init__(self) -> None:
        self.waiting: list[tuple[StagedMessage, Deliver, tuple[SessionTransaction, ...]]] = []

    def committed(self, session: Session) -> None:
        if session.in_nested_transaction():
            return  # a savepoint was released: the transaction around it may still roll back
        waiting, self.waiting = self.waiting, []
        for deliver in {deliver for _, deliver, _ in waiting}:
            deliver([message for message, its, _ in waiting if its == deliver])

    def rolled_back(self, session: Session, transaction: SessionTransaction) -> None:
        self.waiting = [staged for staged in self.waiting if transaction not in staged[2]]


def after_commit(session: Session, message: StagedMessage, deliver: Deliver) -> None:
    """Deliver a message when the session's transaction commits, and forget it when that rolls back."""
    staged: _Staged | None = session.info.get(_KEY)
    if staged is None:
        staged = session.info[_KEY] = _Staged()
        event.listen(session, "after_commit", staged.committed)
        event.listen(session, "after_soft_rollback", staged.rolled_back)
    staged.waiting.append((message, deliver, tuple(_transactions(session))))


def takes_session(handler: Callable[..., object]) -> bool:
    """Whether a handler has a second parameter, for the session."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except ValueError:  # a built-in without a signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len([p for p in parameters if p.kind in positional and p.default is p.empty]) > 1


@contextmanager
def commit_is_ours(session: Session) -> Iterator[None]:
    """Refuse a handler's own commit: between it and the confirmation a crash would make the message come twice."""

    def refuse(committing: Session) -> None:
        if not committing.in_nested_transaction():
            raise GuaranteeError(
                "the guarantee commits this session when the handler returns, together with the confirmation: "
                "use flush() where you need what you have written"
            )

    event.listen(session, "before_commit", refuse)
    try:
        yield
    finally:
        event.remove(session, "before_commit", refuse)


def _transactions(session: Session) -> Iterable[SessionTransaction]:
    transaction: Any = session.get_nested_transaction() or session.get_transaction()
    while transaction is not None:
        yield transaction
        transaction = transaction.parent
