"""Reading the pages of a server as Prometheus and probes do."""

import asyncio
import json
from typing import Any

from prometheus_client.parser import text_string_to_metric_families


async def fetch(address: str, path: str, *, version: str = "1.1") -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a page."""
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(f"GET {path} HTTP/{version}\r\nHost: {address}\r\n\r\n".encode())
            head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    chunked = headers.get("transfer-encoding") == "chunked"
    return int(status.split()[1]), headers, joined(rest) if chunked else rest


def joined(chunks: bytes) -> bytes:
    """The body of a chunked answer, which must be complete."""
    body = b""
    while True:
        size, _, rest = chunks.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            assert rest == b"\r\n"
            return body
        body += rest[:length]
        assert rest[length : length + 2] == b"\r\n"
        chunks = rest[length + 2 :]


async def fetch_json(address: str, path: str) -> tuple[int, Any]:
    status, _, body = await fetch(address, path)
    return status, json.loads(body)


Samples = dict[str, list[tuple[dict[str, str], float]]]


def parse(page: str) -> Samples:
    """All samples by name, as Prometheus' own parser reads them; no series twice, families in one piece."""
    found: Samples = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    for name, rows in found.items():
        series = [tuple(sorted(labels.items())) for labels, _ in rows]
        assert len(series) == len(set(series)), f"{name} has a series twice"
    types = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    return found


async def scrape(address: str) -> Samples:
    status, headers, body = await fetch(address, "/metrics")
    assert status == 200, body
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    return parse(body.decode())


def value(samples: Samples, name: str, **labels: str) -> float:
    """The value of the one sample with these labels."""
    [found] = [number for has, number in samples[name] if labels.items() <= has.items()]
    return found
