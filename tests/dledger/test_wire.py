"""Bodies of Apache's DLedger requests, recorded between its nodes."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ariane.dledger.peers import wire
from ariane.errors import ProtocolError

RECORDED = Path(__file__).parent.parent / "fixtures" / "wire-dledger.jsonl.gz"
REQUESTS = {wire.VOTE: wire.VoteRequest, wire.HEART_BEAT: wire.HeartBeat, wire.PUSH: wire.PushRequest}
RESPONSES = {wire.VOTE: wire.VoteResponse, wire.HEART_BEAT: wire.HeartBeat, wire.PUSH: wire.PushResponse}


def frames() -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]


def test_every_recorded_body_is_read_and_written_byte_for_byte() -> None:
    seen = set()
    for frame in frames():
        request = frame["kind"] == "request"
        body: type[wire.Body] = REQUESTS[frame["code"]] if request else RESPONSES[frame["request_code"]]
        raw = base64.b64decode(frame["body_base64"])
        decoded = body.decode(raw)
        assert decoded.encode() == raw
        seen.add((body.__name__, getattr(decoded, "type", ""), decoded.code))
    assert {type_ for name, type_, _ in seen if name == "PushRequest"} == {"APPEND", "COMMIT", "COMPARE", "TRUNCATE"}
    assert {code for name, _, code in seen if name == "PushResponse"} == {200, 405, 406}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"term":"x"}', b'{"entry":{"body":"?"}}', b'{"batchEntry":[1]}'])
def test_what_is_no_body_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        wire.PushRequest.decode(data)
