"""A recorded session of Apache's broker, client and tools with Apache's name server, played to ours byte for byte."""

import asyncio
from typing import Any

import pytest

from ariane.protocol import fastjson
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.frame import FrameDecoder, encode
from tests.protocol.wire import RECORDINGS, Recorded, exchanges, recording

OWN_SETTINGS = (RequestCode.GET_NAMESRV_CONFIG,)  # paths and ports of another machine
UNKNOWN = 3


class Line:
    """A bare socket that sends recorded frames and reads what comes back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._decoder = FrameDecoder()

    async def ask(self, frame: Recorded) -> Command:
        self.writer.write(frame.frame)
        if frame.kind == "oneway":
            self.writer.write(encode(Command(4711)))  # answered when the one-way request before it was handled
        while not (answers := self._decoder.take()):
            data = await asyncio.wait_for(self._reader.read(1 << 16), 60)
            assert data, f"closed at request {frame.code}"
            self._decoder.feed(data)
        [answer] = answers
        return answer


def plain(body: bytes) -> Any:
    """A JSON body without its order, and without what only we write."""
    return sorted_deep(fastjson.loads(body)) if body else None


def sorted_deep(value: Any) -> Any:
    if isinstance(value, dict):
        own = {"enableActingMaster": False, "brokerAddr": None}
        return {k: sorted_deep(v) for k, v in value.items() if k not in own or v != own[k]}
    if isinstance(value, list):
        return sorted((sorted_deep(item) for item in value), key=repr)
    return value


LISTS = (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.GET_TOPICS_BY_CLUSTER)
COUNTS = (RequestCode.ADD_WRITE_PERM_OF_BROKER, RequestCode.WIPE_WRITE_PERM_OF_BROKER)


def check_content(frame: Recorded, answer: Command, expected: Recorded) -> None:
    """The recording left some registrations out: what they brought is missing from our lists, and nothing else."""
    if frame.code in LISTS:
        ours, theirs = (set(plain(body)["topicList"]) for body in (answer.body, expected.body))
        assert ours < theirs
        assert len(ours) > 10
    elif frame.code in COUNTS:
        assert answer.fields.keys() == expected.fields.keys()
    elif frame.code not in OWN_SETTINGS:
        assert answer.fields == expected.fields, frame.code
        assert plain(answer.body) == plain(expected.body), frame.code


def was_not_recorded(frame: Recorded, answer: Command, expected: Recorded) -> bool:
    """A route to a topic whose registration the recording left out."""
    return frame.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and (answer.code, expected.code) == (17, 0)


def check(frame: Recorded, answer: Command, expected: Recorded) -> None:
    assert (answer.code, answer.opaque) == (expected.code, expected.header["opaque"]), frame.code
    if expected.code != 0:
        assert answer.remark == expected.header["remark"]
    check_content(frame, answer, expected)


@pytest.mark.parametrize("name", RECORDINGS)
async def test_our_answers_mean_what_apaches_meant(start, name: str) -> None:
    server = await start()
    theirs = {id(request): response for request, response in exchanges()}
    lines: dict[int, Line] = {}
    passed_over = compared = 0
    for frame in recording(name):
        if frame.link != "namesrv" or not frame.to_server:
            continue
        if frame.connection not in lines:
            lines[frame.connection] = Line(*await asyncio.open_connection("127.0.0.1", server.port))
        answer = await lines[frame.connection].ask(frame)
        if answer.code == UNKNOWN:
            continue
        if was_not_recorded(frame, answer, theirs[id(frame)]):
            passed_over += 1
            continue
        check(frame, answer, theirs[id(frame)])
        compared += 1
    assert compared > 45
    assert passed_over < 15
    for line in lines.values():
        line.writer.close()
