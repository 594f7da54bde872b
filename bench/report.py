"""The table of a run: ratios of neighbours, medians over the rounds."""

from pathlib import Path
from statistics import median
from typing import Any

from bench.cases import Case

Row = dict[str, Any]
PROCESS = (("ready", "start-up to ready, s", 0.5), ("private", "memory beside the page cache, MiB", 0.1))


def ratio(rows: list[Row], case: str, figure: str) -> float | None:
    """Ours to Apache's, as the median of the rounds; None when one of them has no such figure."""
    ours, theirs = (_figures(rows, broker, case, figure) for broker in ("ariane", "apache"))
    pairs = [a / b for a, b in zip(ours, theirs, strict=False) if b]
    return median(pairs) if pairs else None


def _figures(rows: list[Row], broker: str, case: str, figure: str) -> list[float]:
    return [row[figure] for row in rows if row["broker"] == broker and row["case"] == case and figure in row]


def _absolute(rows: list[Row], broker: str, case: str, figure: str) -> str:
    found = _figures(rows, broker, case, figure)
    if not found:
        return "-"
    middle = median(found)
    return f"{middle:,.0f}" if middle >= 1000 else f"{middle:.1f}"


def _pair(rows: list[Row], broker: str, case: str) -> str:
    return f"{_absolute(rows, broker, case, 'cpu_us')} · {_absolute(rows, broker, case, 'rate')}"


def table(rows: list[Row], chosen: list[Case]) -> str:
    """A Markdown table: one row a case, ratios first, absolute figures for information behind them."""
    lines = [
        "| case | CPU a message: ratio (target) | messages/s: ratio (target) | ours: µs · msg/s | Apache: µs · msg/s |",
        "|---|---|---|---|---|",
    ]
    for case in chosen:
        cpu = _cell(ratio(rows, case.name, "cpu_us"), case.cpu_target, at_most=True)
        rate = _cell(ratio(rows, case.name, "rate"), case.rate_target, at_most=False)
        ours, theirs = (_pair(rows, broker, case.name) for broker in ("ariane", "apache"))
        lines.append(f"| {case.name} | {cpu} | {rate} | {ours} | {theirs} |")
        lines += _special(rows, case)
    for figure, what, target in PROCESS:
        lines.append(_single(rows, "process", figure, what, target))
    return "\n".join([*lines, *_kafka(rows)]) + "\n"


def _special(rows: list[Row], case: Case) -> list[str]:
    if case.kind == "latency":
        targets = {"p50": None, "p99": case.p99_target, "p999": None}
        return [_single(rows, case.name, name, f"{case.name}: {name}, ms", goal) for name, goal in targets.items()]
    if case.kind == "oneway":
        return [_single(rows, case.name, "lost", f"{case.name}: messages lost", None)]
    return []


def _single(rows: list[Row], case: str, figure: str, what: str, target: float | None) -> str:
    cell = _cell(ratio(rows, case, figure), target, at_most=True)
    ours, theirs = (_absolute(rows, broker, case, figure) for broker in ("ariane", "apache"))
    return f"| {what} | {cell} | | {ours} | {theirs} |"


def _kafka(rows: list[Row]) -> list[str]:
    """Kafka's figures stand beside, without a ratio: other tools, another protocol, batches of its own size."""
    if not _figures(rows, "kafka", "batches", "rate"):
        return []
    head = ["", "| Kafka 4.3.1, its own tools, one node | CPU µs a message | messages/s |", "|---|---|---|"]
    names = {"batches": "batched sending, 128 B, acks=1", "drain": "draining"}
    return head + [
        f"| {what} | {_absolute(rows, 'kafka', case, 'cpu_us')} | {_absolute(rows, 'kafka', case, 'rate')} |"
        for case, what in names.items()
    ]


def growth_table(rows: list[Row]) -> str:
    """What growth costs: ratios of large to small, and what each thing takes."""
    if not rows:
        return ""
    lines = ["", "| growth | ratio (target) | µs a message: small · large | also |", "|---|---|---|---|"]
    shown = {"case", "ratio", "target", "small_us", "large_us"}
    for row in rows:
        ratio_cell = _cell(row.get("ratio"), row.get("target"), at_most=True)
        costs = f"{row['small_us']:.1f} · {row['large_us']:.1f}" if "small_us" in row else ""
        rest = ", ".join(f"{name} {value:,.1f}".removesuffix(".0") for name, value in row.items() if name not in shown)
        lines.append(f"| {row['case']} | {ratio_cell} | {costs} | {rest} |")
    return "\n".join(lines) + "\n"


def _cell(value: float | None, target: float | None, *, at_most: bool) -> str:
    if value is None:
        return "-"
    if target is None:
        return f"{value:.2f}"
    reached = value <= target if at_most else value >= target
    return f"{value:.2f} ({'≤' if at_most else '≥'} {target}: {'yes' if reached else '**no**'})"


def write_plot(rows: list[Row], chosen: list[Case], path: Path) -> None:
    """A bar a case: broker CPU per message as a ratio to Apache's, with a line at 1 and a mark at the target."""
    bars = [(case.name, ratio(rows, case.name, "cpu_us"), case.cpu_target) for case in chosen]
    shown = [(name, value, target) for name, value, target in bars if value is not None]
    width, left, step = 800, 290, 26
    scale = (width - left - 60) / max([1.0, *(value for _, value, _ in shown)])
    height = step * len(shown) + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="10" y="22" font-size="14">Broker CPU per message, Ariane to Apache 4.9.7 (1 = equal)</text>',
    ]
    for number, (name, value, target) in enumerate(shown):
        parts += _bar(40 + number * step, left, scale, name, value, target)
    x = left + scale
    line = f'<line x1="{x:.1f}" y1="34" x2="{x:.1f}" y2="{height - 14}" stroke="#888" stroke-dasharray="4"/></svg>'
    path.write_text("\n".join([*parts, line]))


def _bar(y: int, left: int, scale: float, name: str, value: float, target: float | None) -> list[str]:
    end = left + max(value, target or 0.0) * scale  # behind the mark too, which would cross the figure
    parts = [
        f'<text x="{left - 8}" y="{y + 14}" font-size="12" text-anchor="end">{name}</text>',
        f'<rect x="{left}" y="{y}" width="{value * scale:.1f}" height="18" fill="#3b7dd8"/>',
        f'<text x="{end + 5:.1f}" y="{y + 14}" font-size="12">{value:.2f}</text>',
    ]
    if target is not None:
        x = left + target * scale
        parts.append(f'<line x1="{x:.1f}" y1="{y - 2}" x2="{x:.1f}" y2="{y + 20}" stroke="#d8503b"/>')
    return parts
