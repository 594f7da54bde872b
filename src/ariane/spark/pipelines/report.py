"""An analysis as one self-contained HTML page with plots."""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any, Final

from ariane.spark.pipelines.analyse import Answers

_STYLE: Final = """
:root { color-scheme: light dark;
  --ink: #1d2733; --faint: #6b7a8c; --line: #d8dfe6; --bar: #2f6fb0; --ground: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --faint: #93a1b0; --line: #33404d; --bar: #6aa7e0; --ground: #12181f; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem 2rem; } .facts b { display: block; font-size: 1.25rem; }
.facts span, figcaption, th { color: var(--faint); font-weight: normal; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; overflow-x: auto; }
svg { width: 100%; height: auto; } svg rect { fill: var(--bar); } svg line { stroke: var(--line); }
svg path { fill: none; stroke: var(--bar); stroke-width: 2; } svg text { fill: var(--faint); font-size: 11px; }
"""

_WIDTH: Final = 860
_HEIGHT: Final = 200
_LEFT: Final = 70
_BOTTOM: Final = 24


def page(answers: Answers, title: str) -> str:
    """The whole page."""
    windows = _by_time(answers.tables["windows"])
    parts = [
        f"<h1>{escape(title)}</h1>",
        _facts(answers.totals),
        _plot("Messages a window", [(w["from"], w["messages"]) for w in windows]),
        _plot("Bytes a window", [(w["from"], w["bytes"]) for w in windows]),
        _plot("Born to stored, 99th percentile, ms", [(w["from"], w["latency_ms_p99"]) for w in windows]),
        _bars("Born to stored", [(f"< {row['below_ms']} ms", row["messages"]) for row in answers.tables["latencies"]]),
    ]
    parts += [
        _bars(name.capitalize(), [(row["value"], row["count"]) for row in rows])
        for name, rows in answers.tables.items()
        if name.startswith("top ") and rows
    ]
    if "fields" in answers.tables:
        parts.append(_table("Fields of the bodies", answers.tables["fields"]))
    parts.append(_table("Windows", answers.tables["windows"][:500]))
    head = f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>{escape(title)}</title>"
    return (
        f"<!doctype html><html lang='en'><head>{head}<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def _by_time(windows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Windows of all topics together."""
    joined: dict[datetime, dict[str, Any]] = {}
    for window in windows:
        into = joined.setdefault(
            window["from"], {"from": window["from"], "messages": 0, "bytes": 0, "latency_ms_p99": 0}
        )
        into["messages"] += window["messages"]
        into["bytes"] += window["bytes"] or 0
        into["latency_ms_p99"] = max(into["latency_ms_p99"], window["latency_ms_p99"] or 0)
    return [joined[moment] for moment in sorted(joined)]


def _facts(totals: dict[str, Any]) -> str:
    shown = "".join(
        f"<div><span>{escape(_words(name))}</span><b>{_shown(value)}</b></div>" for name, value in totals.items()
    )
    return f"<div class='facts'>{shown}</div>"


def _words(name: str) -> str:
    return name.replace("latency_ms_", "born to stored, ms, ").replace("_", " ")


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def _plot(title: str, points: Sequence[tuple[datetime, float]]) -> str:
    """A line over time."""
    if not points:
        return ""
    most = max(value for _, value in points) or 1
    begin, end = points[0][0], points[-1][0]
    axis = _axis(most) + _text(_LEFT, _HEIGHT - 6, _shown(begin)) + _text(_WIDTH, _HEIGHT - 6, _shown(end), "end")
    return _figure(title, axis + (_line(points, most) if len(points) > 1 else _single(points[0][1], most)), _HEIGHT)


def _line(points: Sequence[tuple[datetime, float]], most: float) -> str:
    begin, span = points[0][0], (points[-1][0] - points[0][0]).total_seconds()
    scale = (_WIDTH - _LEFT) / span
    spots = (f"{_LEFT + (at - begin).total_seconds() * scale:.1f},{_y(value, most):.1f}" for at, value in points)
    return f"<path d='M{' L'.join(spots)}'/>"


def _single(value: float, most: float) -> str:
    top = _y(value, most)
    return f"<rect x='{_LEFT}' y='{top:.1f}' width='4' height='{_y(0, most) - top:.1f}'/>"


def _y(value: float, most: float) -> float:
    return 10 + (_HEIGHT - _BOTTOM - 10) * (1 - value / most)


def _axis(most: float) -> str:
    marks = (0, most / 2, most)
    return "".join(
        f"<line x1='{_LEFT}' x2='{_WIDTH}' y1='{_y(mark, most):.1f}' y2='{_y(mark, most):.1f}'/>"
        + _text(_LEFT - 6, _y(mark, most) + 4, _shown(round(mark)), "end")
        for mark in marks
    )


def _bars(title: str, rows: Sequence[tuple[str, int]]) -> str:
    """A bar for each row."""
    if not rows:
        return ""
    most = max(count for _, count in rows) or 1
    marks = "".join(
        _text(190, 16 + 20 * index, label[:28], "end")
        + f"<rect x='200' y='{6 + 20 * index}' width='{max(1.0, 560 * count / most):.1f}' height='13'/>"
        + _text(206 + 560 * count / most, 16 + 20 * index, _shown(count))
        for index, (label, count) in enumerate(rows)
    )
    return _figure(title, marks, 20 * len(rows) + 12)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(text)}</text>"


def _figure(title: str, inside: str, height: int) -> str:
    drawing = f"<svg viewBox='0 0 {_WIDTH} {height}' role='img' aria-label='{escape(title)}'>{inside}</svg>"
    return f"<h2>{escape(title)}</h2><figure>{drawing}</figure>"


def _table(title: str, rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(_words(name))}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(_cell(value) for value in row.values())}</tr>" for row in rows)
    return f"<h2>{escape(title)}</h2><figure><table><tr>{head}</tr>{body}</table></figure>"


def _cell(value: Any) -> str:
    kind = " class='number'" if isinstance(value, int | float) else ""
    return f"<td{kind}>{_shown(value)}</td>"
