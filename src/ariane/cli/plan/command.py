"""`ariane plan`: what a load needs of machines, with a reason for each figure."""

import re
from typing import Annotated, Final

import typer

from ariane.cli.operate.output import print_json, print_table
from ariane.cli.plan.model import Limits, Sending, Workload, plan
from ariane.errors import ConfigError
from ariane.protocol.frame_head import MAX_FRAME

_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20}
_HOURS: Final = {"h": 1.0, "d": 24.0, "m": 1 / 60}
_LONGEST: Final = 10 * 366 * 24.0  # hours


def command(
    rate: Annotated[float, typer.Option(min=0.001, max=1e9, help="messages a second at the peak, of the cluster")],
    size: Annotated[str, typer.Option(help="bytes of a body: 512, 1k, 2m")] = "1k",
    retention: Annotated[str, typer.Option(help="how long messages are kept: 72h, 7d")] = "72h",
    replicas: Annotated[int, typer.Option(min=1, max=16, help="copies of each message, the master's included")] = 2,
    groups: Annotated[int, typer.Option(min=0, max=10_000, help="consumer groups that read every message")] = 1,
    average: Annotated[float, typer.Option(min=0.0001, max=1, help="average rate as a part of the peak")] = 1.0,
    sending: Annotated[Sending, typer.Option(help="how producers send")] = Sending.ASYNC,
    topics: Annotated[int, typer.Option(min=1, max=10_000_000, help="topics")] = 100,
    queues: Annotated[int, typer.Option(min=1, max=10_000, help="queues of each topic on each broker")] = 8,
    connections: Annotated[int, typer.Option(min=0, max=10_000_000, help="clients that are connected")] = 100,
    properties: Annotated[
        int, typer.Option(min=0, max=32767, help="bytes of properties: 43 for the id, then keys and tags")
    ] = 64,
    keys: Annotated[int, typer.Option(min=0, max=1000, help="keys of a message")] = 0,
    cpu: Annotated[float, typer.Option(min=0.05, max=1, help="part of a core that a broker may use")] = Limits.cpu,
    disk: Annotated[float, typer.Option(min=0.05, max=0.9, help="part of the disk that may be used")] = Limits.disk,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, for programs")] = False,
) -> None:
    """Estimate CPU, memory, disk and network of the brokers for a load; docs/capacity.md says how good it is.

    Example: ariane plan --rate 20000 --size 1k --retention 72h --replicas 2
    """
    load = Workload(
        rate=rate,
        size=_bytes(size),
        retention_hours=_hours(retention),
        average=average,
        replicas=replicas,
        groups=groups,
        topics=topics,
        queues=queues,
        connections=connections,
        properties=properties,
        keys=keys,
        sending=sending,
    )
    lines = plan(load, limits=Limits(cpu, disk))
    if as_json:
        print_json({line.name: {"value": line.value, "unit": line.unit, "why": line.why} for line in lines})
        return
    print_table(
        ["", "value", "unit", "because"], [(one.name, _shown(one.value), one.unit, one.why) for one in lines], "nothing"
    )


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([km]?)(?:i?b)?", text.strip().lower())
    if found is None or not 0 < (size := int(found[1]) * _SIZES[found[2]]) <= MAX_FRAME:
        raise ConfigError(f"--size {text}: give bytes as 512, 1k or 2m; the protocol ends at 16m")
    return size


def _hours(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([hdm])", text.strip().lower())
    if found is None or not 0 < (hours := float(found[1]) * _HOURS[found[2]]) <= _LONGEST:
        raise ConfigError(f"--retention {text}: give hours or days as 72h or 7d, ten years at most")
    return hours


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.2f}"
