"""The table and the plot of a run: ratios of neighbours, medians over the rounds."""

from pathlib import Path
from statistics import median
from typing import Any

from bench.cases import Case

Row = dict[str, Any]


def ratio(rows: list[Row], case: str, figure: str) -> float | None:
    """Ours to Apache's, as the median of the rounds; None when one of them has no such figure."""
    ours, theirs = (_figures(rows, broker, case, figure) for broker in ("ariane", "apache"))
    pairs = [a / b for a, b in zip(ours, theirs, strict=False) if b]
    return median(pairs) if pairs else None


def _figures(rows: list[Row], broker: str, case: str, figure: str) -> list[float]:
    return [row[figure] for row in rows if row["broker"] == broker and row["case"] == case and figure in row]


def _absolute(rows: list[Row], broker: str, case: str, figure: str) -> str:
    found = _figures(rows, broker, case, figure)
    return f"{median(found):,.1f}" if found else "-"


def print_table(rows: list[Row], chosen: list[Case]) -> None:
    """A Markdown table: one row a case, ratios first, absolute figures for information behind them."""
    print("\n| case | CPU a message: ratio (target) | messages/s: ratio (target) | ours µs, msg/s | Apache µs, msg/s |")
    print("|---|---|---|---|---|")
    for case in chosen:
        cpu = _cell(ratio(rows, case.name, "cpu_us"), case.cpu_target, at_most=True)
        rate = _cell(ratio(rows, case.name, "rate"), case.rate_target, at_most=False)
        ours, theirs = (
            f"{_absolute(rows, broker, case.name, 'cpu_us')}, {_absolute(rows, broker, case.name, 'rate')}"
            for broker in ("ariane", "apache")
        )
        print(f"| {case.name} | {cpu} | {rate} | {ours} | {theirs} |")
        if case.kind == "latency":
            _print_latency(rows, case)
    for figure, what, target in (
        ("ready", "start-up to ready, s", 0.5),
        ("private", "memory beside the cache, MiB", 0.1),
    ):
        cell = _cell(ratio(rows, "process", figure), target, at_most=True)
        print(f"| {what} | {cell} | | {_absolute(rows, 'ariane', 'process', figure)} "
              f"| {_absolute(rows, 'apache', 'process', figure)} |")  # fmt: skip


def _print_latency(rows: list[Row], case: Case) -> None:
    for figure in ("p50", "p99", "p999"):
        target = case.p99_target if figure == "p99" else None
        cell = _cell(ratio(rows, case.name, figure), target, at_most=True)
        ours, theirs = (_absolute(rows, broker, case.name, figure) for broker in ("ariane", "apache"))
        print(f"| {case.name}: {figure}, ms | {cell} | | {ours} | {theirs} |")


def _cell(value: float | None, target: float | None, *, at_most: bool) -> str:
    if value is None:
        return "-"
    if target is None:
        return f"{value:.2f}"
    reached = value <= target if at_most else value >= target
    return f"{value:.2f} ({'≤' if at_most else '≥'} {target}: {'yes' if reached else '**no**'})"


def write_plot(rows: list[Row], chosen: list[Case], path: Path) -> None:
    """A bar a case: broker CPU per message as a ratio to Apache's, with a line at 1."""
    bars = [(case.name, ratio(rows, case.name, "cpu_us"), case.cpu_target) for case in chosen]
    shown = [(name, value, target) for name, value, target in bars if value is not None]
    width, left, step = 760, 230, 26
    scale = (width - left - 60) / max([1.0, *(value for _, value, _ in shown)])
    height = step * len(shown) + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="10" y="22" font-size="14">Broker CPU per message, Ariane to Apache 4.9.7 (1 = equal)</text>',
    ]
    for number, (name, value, target) in enumerate(shown):
        y = 40 + number * step
        parts.append(f'<text x="{left - 8}" y="{y + 14}" font-size="12" text-anchor="end">{name}</text>')
        parts.append(f'<rect x="{left}" y="{y}" width="{value * scale:.1f}" height="18" fill="#3b7dd8"/>')
        parts.append(f'<text x="{left + value * scale + 5:.1f}" y="{y + 14}" font-size="12">{value:.2f}</text>')
        if target is not None:
            x = left + target * scale
            parts.append(f'<line x1="{x:.1f}" y1="{y - 2}" x2="{x:.1f}" y2="{y + 20}" stroke="#d8503b"/>')
    x = left + scale
    parts.append(
        f'<line x1="{x:.1f}" y1="34" x2="{x:.1f}" y2="{height - 14}" stroke="#888" stroke-dasharray="4"/></svg>'
    )
    path.write_text("\n".join(parts))
