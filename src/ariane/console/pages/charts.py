"""Charts. Names from the cluster are drawn as text: a tooltip of HTML would run what they say."""

from typing import Any, Final

from nicegui import ui

from ariane.console.pages.view import View

Point = tuple[int, float]
COLORS: Final = ["#0f766e", "#2563eb", "#b45309", "#7c3aed", "#be123c", "#4d7c0f"]
DARK_COLORS: Final = ["#2dd4bf", "#60a5fa", "#fbbf24", "#c4b5fd", "#fb7185", "#bef264"]
RANGES: Final = {"1h": 1.0, "6h": 6.0, "24h": 24.0, "7d": 168.0}


def style(view: View) -> dict[str, Any]:
    """What all charts have."""
    ink, line = ("#cbd5e1", "#334155") if view.visitor.session.dark else ("#475569", "#e2e8f0")
    axis = {
        "axisLabel": {"color": ink, "hideOverlap": True},
        "axisLine": {"lineStyle": {"color": line}},
        "splitLine": {"lineStyle": {"color": line}},
        "nameTextStyle": {"color": ink},
    }
    return {
        "useUTC": True,
        "color": DARK_COLORS if view.visitor.session.dark else COLORS,
        "textStyle": {"color": ink},
        "grid": {"left": 8, "right": 20, "top": 16, "bottom": 8, "containLabel": True},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "xAxis": dict(axis),
        "yAxis": dict(axis),
    }


def picture(view: View, options: dict[str, Any], name: str, height: str = "14rem") -> ui.echart:
    """A chart with a name for those who cannot see it."""
    chart = ui.echart(options, renderer="svg").style(f"height: {height}; width: 100%")
    chart.props["role"] = "img"
    chart.props["aria-label"] = name
    return chart


class RangeChoice:
    """Buttons that choose how far back charts go; the choice is in the page's address."""

    def __init__(self, view: View) -> None:
        self.name = view.query.get("range", "1h")
        if self.name not in RANGES:
            self.name = "1h"
        with ui.row().classes("gap-1") as row:
            row.props["role"] = "group"
            row.props["aria-label"] = view.t("range")
            for name in RANGES:
                button = ui.button(name, on_click=lambda name=name: self._go(view, name))
                button.classes("px-3").props("dense no-caps " + ("unelevated" if name == self.name else "flat"))
                button.props["aria-pressed"] = "true" if name == self.name else "false"

    @staticmethod
    def _go(view: View, name: str) -> None:
        ui.navigate.to(view.link(view.page, **{**view.query, "range": name}))

    @property
    def hours(self) -> float:
        """The chosen range."""
        return RANGES[self.name]


class LineChart:
    """Values over a range of time: one line, or several with a legend."""

    def __init__(self, view: View, name: str, chosen: RangeChoice, *, percent: bool = False) -> None:
        self._view = view
        self._name = name
        self._chosen = chosen
        self._fresh: list[Point] = []
        options = style(view)
        options["xAxis"] |= {"type": "time", "splitLine": {"show": False}}
        options["yAxis"] |= {"type": "value", "min": 0}
        if percent:
            options["yAxis"] |= {"max": 100, "name": "%"}
            options["grid"]["top"] = 32
        ink = options["textStyle"]["color"]
        options["title"] = {
            "text": view.t("chart.empty"),
            "left": "center",
            "top": "middle",
            "textStyle": {"color": ink, "fontSize": 14, "fontWeight": "normal"},
        }
        options["legend"] = {"type": "scroll", "bottom": 0, "textStyle": {"color": ink}}
        options["series"] = []
        self._chart = picture(view, options, name)

    def show(self, kept: list[Point], now: Point | None = None) -> None:
        """Show one line; `now` is added to those that this page saw itself."""
        if now is not None:
            self._fresh = [*self._fresh[-500:], now]
        last = kept[-1][0] if kept else 0
        self.show_all({self._name: [*kept, *(point for point in self._fresh if point[0] > last)]})

    def show_all(self, lines: dict[str, list[Point]]) -> None:
        """Show lines by name."""
        options, now = self._chart.options, self._view.console.now()
        options["series"] = [
            {
                "type": "line",
                "showSymbol": len(points) < 3,
                "lineStyle": {"width": 2},
                "name": name,
                "data": [[time, round(value, 3)] for time, value in points],
                **({"areaStyle": {"opacity": 0.12}} if len(lines) == 1 else {}),
            }
            for name, points in lines.items()
        ]
        named = any(name != self._name for name in lines)  # a line that is what the chart is about needs no legend
        options["title"]["show"] = not any(lines.values())
        options["legend"]["show"] = named
        options["grid"]["bottom"] = 36 if named else 8
        options["xAxis"] |= {"min": now - int(self._chosen.hours * 3_600_000), "max": now}
        self._chart.update()


class BarChart:
    """A bar for each label."""

    def __init__(self, view: View, name: str) -> None:
        options = style(view)
        options["xAxis"] |= {"type": "category", "data": [], "splitLine": {"show": False}}
        options["yAxis"] |= {"type": "value", "minInterval": 1}
        options["series"] = [
            {"type": "bar", "barMaxWidth": 56, "data": [], "itemStyle": {"borderRadius": [4, 4, 0, 0]}}
        ]
        self._chart = picture(view, options, name, "16rem")

    def show(self, labels: list[str], values: list[float]) -> None:
        """Show other bars."""
        self._chart.options["xAxis"]["data"] = labels
        self._chart.options["series"][0]["data"] = values
        self._chart.update()


def sparkline(points: list[Point]) -> None:
    """A small line without numbers, beside the number itself; nothing of fewer than two points."""
    if len(points) < 2:
        return
    with ui.element("svg").classes("spark") as drawing:
        drawing.props["viewBox"] = "0 0 100 30"
        drawing.props["preserveAspectRatio"] = "none"
        drawing.props["aria-hidden"] = "true"
        line = ui.element("polyline")
        line.props["points"] = spark_points([value for _, value in points[-60:]])


def spark_points(values: list[float]) -> str:
    """The points of a line in a box of 100 by 30.

    >>> spark_points([0, 10])
    '0.0,29.0 100.0,1.0'
    """
    top = max(values, default=0) or 1
    step = 100 / max(1, len(values) - 1)
    return " ".join(f"{number * step:.1f},{29 - 28 * value / top:.1f}" for number, value in enumerate(values))
