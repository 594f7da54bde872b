"""A driver of Apache's C++ client through its Python wheel: one JSON request a line, one JSON answer a line."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rocketmq import client
from rocketmq.client import Message, MessageModel, RecvMessage

Request = dict[str, Any]
Answer = dict[str, Any]
CONSUME_SUCCESS, RECONSUME_LATER = 0, 1


class Inbox:
    """What a push consumer received, and how often it fails first."""

    def __init__(self, fail: int) -> None:
        self.messages: list[Answer] = []
        self._fail = fail
        self._news = threading.Condition()

    def take(self, _consumer: Any, handle: Any) -> int:
        with self._news:
            self.messages.append(_received(RecvMessage(handle)))
            self._news.notify_all()
            self._fail -= 1
            return RECONSUME_LATER if self._fail >= 0 else CONSUME_SUCCESS

    def wait(self, count: int, seconds: float) -> list[Answer]:
        with self._news:
            self._news.wait_for(lambda: len(self.messages) >= count, seconds)
            return list(self.messages)


clients: dict[str, Any] = {}
inboxes: dict[str, Inbox] = {}


def _received(message: Any) -> Answer:
    return {
        "topic": message.topic,
        "body": message.body.decode(),
        "tags": (message.tags or b"").decode(),
        "keys": (message.keys or b"").decode(),
        "msgId": message.id,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "reconsumed": message.reconsume_times,
        "stored": message.store_timestamp,
        "born": message.born_timestamp,
        "colour": (message["colour"] or b"").decode(),
    }


def start_producer(request: Request) -> Answer:
    producer = client.Producer(request["group"])
    producer.set_namesrv_addr(request["namesrv"])
    _sign(producer, request)
    producer.start()
    clients[request["handle"]] = producer
    return {}


def _sign(one: Any, request: Request) -> None:
    if "accessKey" in request:
        one.set_session_credentials(request["accessKey"], request["secretKey"], "ariane")


def start_consumer(request: Request) -> Answer:
    if request.get("kind") == "pull":
        return _start_pull(request)
    model = MessageModel.BROADCASTING if request.get("kind") == "broadcast" else MessageModel.CLUSTERING
    consumer = client.PushConsumer(request["group"], orderly=request.get("kind") == "orderly", message_model=model)
    consumer.set_namesrv_addr(request["namesrv"])
    consumer.set_instance_name(request["instance"])
    _sign(consumer, request)
    inbox = inboxes[request["handle"]] = Inbox(request.get("fail", 0))
    _subscribe(consumer, request["topic"], request.get("tags", "*"), inbox)
    consumer.start()
    clients[request["handle"]] = consumer
    return {}


def _subscribe(consumer: Any, topic: str, tags: str, inbox: Inbox) -> None:
    """As `PushConsumer.subscribe` does, but the listener may ask for the message again: there it never can."""
    client.ffi_check(client.dll.Subscribe(consumer._handle, topic.encode(), tags.encode()))
    consumer._register_callback(inbox.take)


def _start_pull(request: Request) -> Answer:
    consumer = client.PullConsumer(request["group"])
    consumer.set_namesrv_addr(request["namesrv"])
    consumer.start()
    clients[request["handle"]] = consumer
    return {}


def _message(fields: Request) -> Message:
    message = Message(fields["topic"])
    message.set_body(fields["body"])
    if "tags" in fields:
        message.set_tags(fields["tags"])
    if "keys" in fields:
        message.set_keys(" ".join(fields["keys"]))
    if "delay" in fields:
        message.set_delay_time_level(fields["delay"])
    for name, value in fields.get("properties", {}).items():
        message.set_property(name, value)
    return message


def send(request: Request) -> Answer:
    producer, mode = clients[request["handle"]], request["mode"]
    messages = [_message(fields) for fields in request["messages"]]
    if mode == "oneway":
        producer.send_oneway(messages[0])
        return {}
    if mode == "async":
        return _send_async(producer, messages[0])
    if len(messages) > 1:
        result = producer.send_batch(messages)
    elif mode == "orderly":
        result = producer.send_orderly(messages[0], ord(request["messages"][0]["shardingKey"]))
    else:
        result = producer.send_sync(messages[0])
    return {"status": int(result.status), "msgId": result.msg_id, "offset": result.offset}


def _send_async(producer: Any, message: Message) -> Answer:
    done, outcome = threading.Event(), []

    def finish(result: Any) -> None:
        outcome.append(result)
        done.set()

    producer.send_async(message, finish, finish)
    if not done.wait(10) or isinstance(outcome[0], Exception):
        raise RuntimeError(f"async send: {outcome}")
    return {"status": int(outcome[0].status), "msgId": outcome[0].msg_id, "offset": outcome[0].offset}


def wait(request: Request) -> Answer:
    return {"messages": inboxes[request["handle"]].wait(request["count"], request["seconds"])}


def poll(request: Request) -> Answer:
    messages: list[Answer] = []
    deadline = time.monotonic() + request["seconds"]
    while len(messages) < request["count"] and time.monotonic() < deadline:
        messages += [_received(message) for message in clients[request["handle"]].pull(request["topic"])]
    return {"messages": messages}


def close(request: Request) -> Answer:
    clients.pop(request["handle"]).shutdown()
    return {}


OPERATIONS: dict[str, Callable[[Request], Answer]] = {
    "producer": start_producer,
    "consumer": start_consumer,
    "send": send,
    "await": wait,
    "poll": poll,
    "close": close,
}


def main() -> None:
    # The library prints to stdout: answers go to a copy of it, and its own descriptor to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = OPERATIONS[request["op"]](request)
        except Exception as error:  # every failure is the answer to its request
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # its threads never end by themselves


if __name__ == "__main__":
    main()
