"""The bytes of the replication stream: what Apache's brokers sent decodes and encodes to the same bytes."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane.errors import ProtocolError
from ariane.protocol.ha import (
    GREETING,
    HEAD,
    REPORT,
    ReportDecoder,
    Resume,
    StreamDecoder,
    frame_head,
    handshake_frame,
    handshake_message,
)
from ariane.protocol.log_records import RecordCutter
from tests.ha.nodes import FILE_SIZE, log_bytes, new_store
from tests.store.units import fill, read_all

FIXTURE = Path(__file__).parent.parent / "fixtures" / "wire-ha.jsonl.gz"


def recorded(direction: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The frames of each recorded connection, in one direction."""
    with gzip.open(FIXTURE, "rt", encoding="utf-8") as file:
        frames = [json.loads(line) for line in file]
    stream = [
        f for f in frames if f["link"] == "ha" and f.get("dir") == direction and f["kind"] not in ("open", "close")
    ]
    for connection in sorted({f["conn"] for f in stream}):
        yield connection, [f for f in stream if f["conn"] == connection]


def encoded(frame: dict[str, Any]) -> bytes:
    data = base64.b64decode(frame.get("data_base64") or "")
    return frame_head(frame["offset"], len(data)) + data


@pytest.mark.parametrize("step", [11, 4096, 1 << 20])
def test_recorded_stream_of_apaches_master_decodes_and_encodes_again(step: int) -> None:
    seen = 0
    for _, frames in recorded("m2s"):
        whole = b"".join(encoded(frame) for frame in frames)
        decoder, again, at = StreamDecoder(), bytearray(), 0
        pieces = [piece for n in range(0, len(whole), step) for piece in decoder.feed(whole[n : n + step])]
        for frame in frames:
            size = frame["size"]
            assert frame["kind"] == ("data" if size else "heartbeat")
            data = b""
            while len(data) < size or (not size and not len(pieces[at][1])):
                offset, piece = pieces[at]
                assert offset == frame["offset"] + len(data)
                data += bytes(piece)
                at += 1
                if not size:
                    break
            again += frame_head(frame["offset"], size) + data
            seen += 1
        assert bytes(again) == whole
    assert seen > 100


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_recorded_reports_of_apaches_slave_decode_and_encode_again(step: int) -> None:
    seen = 0
    for _, frames in recorded("s2m"):
        whole = b"".join(REPORT.pack(frame["offset"]) for frame in frames)
        decoder = ReportDecoder()
        found = [event for n in range(0, len(whole), step) for event in decoder.feed(whole[n : n + step])]
        assert found == [frame["offset"] for frame in frames]
        seen += len(found)
    assert seen > 100


def test_recorded_log_of_apaches_master_is_stored_and_dispatched() -> None:
    for connection, frames in recorded("m2s"):
        if connection == 3:
            continue  # continues the log of connection 2
        store = new_store(file_size=65536)
        cutter: RecordCutter | None = None
        for frame in frames:
            data = base64.b64decode(frame.get("data_base64") or "")
            if not data:
                continue
            cutter = cutter or RecordCutter(frame["offset"], 65536)
            records, size = cutter.cut([data])
            if size:
                assert store.append_raw(cutter.position - size, records, size)
        store.dispatch_now()
        assert store.dispatch_behind == 0
        assert len(store.table)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=40), st.data())
def test_cutter_lets_only_whole_records_through(sizes: list[int], data: st.DataObject) -> None:
    store = new_store()
    for size in sizes:
        fill(store, 1, size=size)
    whole = log_bytes(store)
    ends, at = {0}, 0
    while at < len(whole):
        at += int.from_bytes(whole[at : at + 4], "big")
        ends.add(at)
    cutter, passed, rest = RecordCutter(0, FILE_SIZE), b"", whole
    while rest:
        size = data.draw(st.integers(1, min(len(rest), 9000)))
        records, whole_size = cutter.cut([rest[:size]])
        passed += records[:whole_size]
        rest = rest[size:]
        blank = passed[max(ends & set(range(len(passed) + 1))) :][4:8] == b"\xcb\xd4\x31\x94"
        assert len(passed) in ends or blank
        assert passed + cutter.held == whole[: len(whole) - len(rest)]
    assert passed == whole


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x10" + b"nonsense" * 2,
        b"\0\0\0\x04\xda\xa3\x20\xa7",
        b"\x7f\xff\xff\xff\xda\xa3\x20\xa7",
        b"\0\0\0\x20\xcb\xd4\x31\x94",  # a filler that does not end its file
    ],
)
def test_cutter_refuses_what_is_no_record(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="no record begins at 0"):
        RecordCutter(0, FILE_SIZE).cut([data])


@given(st.binary(max_size=200))
def test_decoders_take_any_bytes_without_surprise(data: bytes) -> None:
    for decode in (StreamDecoder().feed, ReportDecoder().feed):
        try:
            for _ in decode(data):
                pass
        except ProtocolError:
            pass


def test_frames_that_cannot_be_are_refused() -> None:
    for head in (HEAD.pack(0, -1), HEAD.pack(0, (64 << 20) + 1), HEAD.pack(-2, 0), HEAD.pack(GREETING, 1 << 21)):
        with pytest.raises(ProtocolError):
            list(StreamDecoder().feed(head))


def test_handshake_frame_is_proved_by_the_key_and_the_challenge() -> None:
    frame = handshake_frame(Resume(7, 0, 9), b"secret", "nonce")
    body = frame[HEAD.size :]
    assert handshake_message(body, Resume, b"secret", "nonce") == (Resume(7, 0, 9), True)
    assert not handshake_message(body, Resume, b"other", "nonce")[1]
    assert not handshake_message(body, Resume, b"secret", "replayed")[1]
    assert not handshake_message(body[:-2] + b"8}", Resume, b"secret", "nonce")[1]
    with pytest.raises(ProtocolError):
        handshake_message(bytes(32) + b"{}", Resume, b"", "")


def test_stored_log_reads_the_same_after_a_copy_in_pieces() -> None:
    source, copy = new_store(), new_store()
    fill(source, 300, size=500)
    cutter, data = RecordCutter(0, FILE_SIZE), log_bytes(source)
    for at in range(0, len(data), 777):
        records, size = cutter.cut([data[at : at + 777]])
        if size:
            assert copy.append_raw(cutter.position - size, records, size)
    copy.dispatch_now()
    assert [u.body for u in read_all(copy)] == [u.body for u in read_all(source)]
