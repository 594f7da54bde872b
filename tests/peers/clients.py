"""Apache's clients as Python objects: each is a handle in the driver's JVM, closed at the end of its `with`."""

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tests.peers.messages import Message, Queue, SendResult, outgoing

if TYPE_CHECKING:
    from tests.peers.driver import Driver

# Settings of the driver's start operations; every other keyword is an option of Apache's class, named after its setter.
OWN_SETTINGS = {
    "access_key": "accessKey",
    "secret_key": "secretKey",
    "namespace": "namespace",
    "trace": "trace",
    "trace_topic": "traceTopic",
}


def unique(what: str) -> str:
    """A name no other test uses, for a topic or group."""
    return f"{what}_{uuid.uuid4().hex[:12]}"


def start_args(namesrv: str, group: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Splits keywords: `access_key, secret_key, namespace, trace, trace_topic`, and Apache's options in camel case."""
    own = {OWN_SETTINGS[name]: value for name, value in settings.items() if name in OWN_SETTINGS}
    options = {name: value for name, value in settings.items() if name not in OWN_SETTINGS}
    return {"namesrv": namesrv, "group": group, "options": options, **own}


def selectors(subscriptions: str | Mapping[str, str | Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """`"T"`, `{"T": "A || B"}` or `{"T": {"sql": "a > 1"}}` as the driver wants it."""
    if isinstance(subscriptions, str):
        return {subscriptions: {"tag": "*"}}
    return {topic: {"tag": s} if isinstance(s, str) else s for topic, s in subscriptions.items()}


class Handle:
    """Something open in the JVM. `invoke("method", ...)` calls any public method of Apache's object."""

    def __init__(self, driver: "Driver", kind: str, args: Mapping[str, Any]) -> None:
        self._driver = driver
        self.handle = driver.name(kind)
        self.group: str = args["group"]
        self.client_id: str = driver.call(f"{kind}.start", handle=self.handle, **args)

    def invoke(self, method: str, *params: Any, limit: float = 120) -> Any:
        """Calls Apache's method by name: a queue goes in as `Queue`, a selector as `{"sql": ...}`; JSON comes out."""
        plain = [param.json() if isinstance(param, Queue) else param for param in params]
        return self._driver.call("invoke", handle=self.handle, method=method, params=plain, limit=limit)

    def refresh(self) -> None:
        """Does now what the client does by itself every second here: heartbeat, routes, rebalance."""
        self._driver.call("client.refresh", handle=self.handle)

    def close(self) -> None:
        """Shuts the client down, in order; closing twice does nothing."""
        self._driver.call("close", handle=self.handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, op: str, limit: float = 120, **args: Any) -> Any:
        return self._driver.call(op, handle=self.handle, limit=limit, **args)


def _where(queue: Queue | None, hash_key: str | None, timeout: float | None) -> dict[str, Any]:
    where: dict[str, Any] = {} if queue is None else {"queue": queue.json()}
    where |= {} if hash_key is None else {"hashKey": hash_key}
    return where if timeout is None else {**where, "timeout": int(timeout * 1000)}


@dataclass(frozen=True)
class Burst:
    """What became of a burst: results of the acknowledged sends, and the errors (with `index`) of the others."""

    sent: list[SendResult]
    failed: list[dict[str, Any]]


class Producer(Handle):
    """DefaultMQProducer. Sends take the keywords of `messages.outgoing`, and `queue=`, `hash_key=`, `timeout=`."""

    def send(
        self,
        topic: str,
        body: bytes | str,
        *,
        queue: Queue | None = None,
        hash_key: str | None = None,
        timeout: float | None = None,
        **fields: Any,
    ) -> SendResult:
        """A synchronous send."""
        where = _where(queue, hash_key, timeout)
        return SendResult.read(self._call("producer.send", **outgoing(topic, body, **fields), **where))

    def send_async(
        self,
        topic: str,
        body: bytes | str,
        *,
        queue: Queue | None = None,
        hash_key: str | None = None,
        timeout: float | None = None,
        **fields: Any,
    ) -> SendResult:
        """An asynchronous send of Apache's client, whose callback is awaited."""
        where = _where(queue, hash_key, timeout)
        return SendResult.read(self._call("producer.sendAsync", **outgoing(topic, body, **fields), **where))

    def send_oneway(
        self,
        topic: str,
        body: bytes | str,
        *,
        queue: Queue | None = None,
        hash_key: str | None = None,
        **fields: Any,
    ) -> str:
        """A one-way send; returns the unique key the client gave the message."""
        where = _where(queue, hash_key, None)
        return str(self._call("producer.sendOneway", **outgoing(topic, body, **fields), **where))

    def send_batch(
        self, messages: Sequence[dict[str, Any]], *, queue: Queue | None = None, timeout: float | None = None
    ) -> SendResult:
        """A batch of messages made by `messages.outgoing`."""
        return SendResult.read(
            self._call("producer.sendBatch", messages=list(messages), **_where(queue, None, timeout))
        )

    def request(self, topic: str, body: bytes | str, *, timeout: float = 30, **fields: Any) -> Message:
        """Request-reply: sends and waits for the reply message."""
        return Message.read(
            self._call("producer.request", **outgoing(topic, body, **fields), timeout=int(timeout * 1000))
        )

    def burst(
        self,
        topic: str,
        count: int,
        *,
        size: int = 100,
        threads: int = 4,
        mode: str = "sync",
        prefix: str = "m",
        tags: str | None = None,
        key_prefix: str | None = None,
        hash_keys: int = 0,
        window: int = 200,
        limit: float = 180,
    ) -> Burst:
        """`count` messages with bodies `prefix-0....`, by `threads` threads; mode is sync, async or oneway.

        With `hash_keys=n` (sync only) message i goes to the queue of hash key i % n; `threads=1` keeps the order.
        """
        result = self._call(
            "producer.burst",
            limit,
            topic=topic,
            count=count,
            size=size,
            threads=threads,
            mode=mode,
            prefix=prefix,
            tags=tags,
            keyPrefix=key_prefix,
            hashKeys=hash_keys,
            window=window,
        )
        return Burst([SendResult.read(item) for item in result["sent"]], result["failed"])

    def queues(self, topic: str) -> list[Queue]:
        """The queues this producer may send to."""
        return sorted(Queue.read(item) for item in self._call("producer.queues", topic=topic))


class TransactionProducer(Producer):
    """TransactionMQProducer with scripted states: COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW, THROW."""

    def send_in_transaction(
        self, topic: str, body: bytes | str, state: str, answers: Sequence[str] | None = None, **fields: Any
    ) -> SendResult:
        """Sends a half message; the local transaction returns `state`, later checks get `answers` in turn."""
        more = None if answers is None else list(answers)
        return SendResult.read(
            self._call("transaction.send", **outgoing(topic, body, **fields), state=state, answers=more)
        )

    def answer_checks(self, answers: Sequence[str]) -> None:
        """What checks get from now on whose message brought no answers of its own."""
        self._call("transaction.answers", answers=list(answers))

    def checks(self) -> list[Message]:
        """Every check so far; `verdict` is the answer it got."""
        return [Message.read(item) for item in self._call("transaction.checks")]

    def await_checks(self, count: int, timeout: float = 60) -> list[Message]:
        """Waits for `count` checks in all; fails when they do not come."""
        return _await(self._call("transaction.await", timeout + 20, count=count, timeout=int(timeout * 1000)), count)


class PushConsumer(Handle):
    """DefaultMQPushConsumer with a scripted listener (README.md has the script's fields)."""

    def messages(self, start: int = 0) -> list[Message]:
        """Every delivery so far, redeliveries too."""
        return [Message.read(item) for item in self._call("consumer.messages", **{"from": start})]

    def await_messages(self, count: int, timeout: float = 60) -> list[Message]:
        """Waits for `count` deliveries in all; fails when they do not come."""
        return _await(self._call("consumer.await", timeout + 20, count=count, timeout=int(timeout * 1000)), count)

    def clear(self) -> None:
        """Forgets the deliveries so far."""
        self._call("consumer.clear")

    def follow(self, script: Mapping[str, Any]) -> None:
        """Puts another script in force."""
        self._call("consumer.script", script=dict(script))

    def release(self) -> None:
        """Lets the listener go on that the script holds."""
        self._call("consumer.release")

    def pause(self) -> None:
        """Stops pulling."""
        self.invoke("suspend")

    def resume(self) -> None:
        """Pulls again."""
        self.invoke("resume")

    def queues(self) -> list[Queue]:
        """The queues assigned now, of all topics (the retry topic too)."""
        return sorted(Queue.read(item) for item in self._call("consumer.queues"))

    def persist_offsets(self) -> None:
        """Sends the offsets of all that was delivered to the broker now, not at the next 5 s tick."""
        self._call("consumer.persist")


class LiteConsumer(Handle):
    """DefaultLitePullConsumer."""

    def poll(self, timeout: float = 30) -> list[Message]:
        """What is there, waiting up to `timeout` seconds for the first message."""
        return [Message.read(item) for item in self.invoke("poll", int(timeout * 1000), limit=timeout + 20)]

    def assign(self, queues: Sequence[Queue]) -> None:
        """Takes these queues by hand."""
        self.invoke("assign", [queue.json() for queue in queues])

    def assignment(self) -> list[Queue]:
        """The queues it reads now."""
        return sorted(Queue.read(item) for item in self.invoke("assignment"))

    def queues(self, topic: str) -> list[Queue]:
        """All queues of a topic."""
        return sorted(Queue.read(item) for item in self.invoke("fetchMessageQueues", topic))

    def seek(self, queue: Queue, offset: int) -> None:
        """Goes on at this offset."""
        self.invoke("seek", queue, offset)

    def commit(self, offsets: Mapping[Queue, int] | None = None) -> None:
        """Commits these offsets, or all that was polled."""
        if offsets is None:
            self.invoke("commitSync")
        else:
            entries = [{**queue.json(), "offset": offset} for queue, offset in offsets.items()]
            self._call("lite.commit", offsets=entries)

    def committed(self, queue: Queue) -> int:
        """The committed offset of a queue."""
        return int(self.invoke("committed", queue))


@dataclass(frozen=True)
class PullResult:
    """Apache's PullResult: FOUND, NO_NEW_MSG, NO_MATCHED_MSG or OFFSET_ILLEGAL."""

    status: str
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[Message]


class PullConsumer(Handle):
    """DefaultMQPullConsumer, and the offset and message queries every client has."""

    def pull(
        self, queue: Queue, offset: int, count: int = 32, selector: str | Mapping[str, str] = "*", timeout: float = 30
    ) -> PullResult:
        """One pull, without suspension; `selector` is tags or `{"sql": ...}`."""
        found = self.invoke("pull", queue, selector, offset, count, int(timeout * 1000))
        messages = [Message.read(item) for item in found["msgFoundList"] or []]
        return PullResult(
            found["pullStatus"], found["nextBeginOffset"], found["minOffset"], found["maxOffset"], messages
        )

    def pull_blocking(self, queue: Queue, offset: int, count: int = 32, tags: str = "*") -> list[Message]:
        """One long-polling pull."""
        found = self.invoke("pullBlockIfNotFound", queue, tags, offset, count)
        return [Message.read(item) for item in found["msgFoundList"] or []]

    def queues(self, topic: str) -> list[Queue]:
        """All queues of a topic."""
        return sorted(Queue.read(item) for item in self.invoke("fetchSubscribeMessageQueues", topic))

    def min_offset(self, queue: Queue) -> int:
        """The first offset the broker still has."""
        return int(self.invoke("minOffset", queue))

    def max_offset(self, queue: Queue) -> int:
        """The offset the next message will get."""
        return int(self.invoke("maxOffset", queue))

    def search_offset(self, queue: Queue, timestamp: int) -> int:
        """The first offset stored at or after this time (milliseconds)."""
        return int(self.invoke("searchOffset", queue, timestamp))

    def committed(self, queue: Queue) -> int:
        """The group's offset at the broker; -1 when it has none."""
        return int(self.invoke("fetchConsumeOffset", queue, True))

    def commit(self, queue: Queue, offset: int) -> None:
        """Sets the group's offset at the broker."""
        self.invoke("updateConsumeOffset", queue, offset)
        self.invoke("persist", queue)

    def query(self, topic: str, key: str, count: int = 32, begin: int = 0, end: int = 2**62) -> list[Message]:
        """Messages by key."""
        found = self.invoke("queryMessage", topic, key, count, begin, end)
        return [Message.read(item) for item in found["messageList"]]

    def view(self, topic: str, msg_id: str) -> Message:
        """One message by its unique key or offset id."""
        return Message.read(self.invoke("viewMessage", topic, msg_id))


class Admin(Handle):
    """DefaultMQAdminExt: `admin.invoke("examineTopicStats", topic)` and so on."""

    def track(self, topic: str, msg_id: str) -> list[dict[str, Any]]:
        """messageTrackDetail of one message."""
        return list(self._call("admin.track", topic=topic, msgId=msg_id))


def echo(producer: Producer) -> dict[str, str]:
    """The script of a consumer that replies to each request with its own body."""
    return {"reply": "echo", "replyBy": producer.handle}


def answer(producer: Producer, body: bytes) -> dict[str, str]:
    """The script of a consumer that replies to each request with this body."""
    return {"reply": base64.b64encode(body).decode(), "replyBy": producer.handle}


def _await(items: list[dict[str, Any]], count: int) -> list[Message]:
    messages = [Message.read(item) for item in items]
    if len(messages) < count:
        raise TimeoutError(f"{count} wanted, {len(messages)} came: {[m.body[:40] for m in messages][-20:]}")
    return messages
