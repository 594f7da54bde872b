"""Answers of Apache's 4.9.7 servers that were recorded from the wire."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

FRAMES = Path(__file__).parents[1] / "fixtures" / "wire-json.jsonl.gz"


def recorded_body(request_code: int) -> bytes:
    """The body of the recorded answer to a request code."""
    with gzip.open(FRAMES, "rt", encoding="utf-8") as lines:
        frames = [json.loads(line) for line in lines]
    answers = [frame for frame in frames if frame.get("request_code") == request_code]
    return base64.b64decode(answers[0]["body_base64"])
