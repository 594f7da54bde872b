"""Charts. Names from the cluster are drawn as text: a tooltip of HTML would run what they say."""

from typing import Any

from nicegui import ui

Point = tuple[int, float]
SMOOTH = {"type": "line", "showSymbol": False, "lineStyle": {"width": 2}, "areaStyle": {"opacity": 0.12}}


class LineChart:
    """Values over time."""

    def __init__(self, name: str) -> None:
        self._fresh: list[Point] = []
        self._chart = ui.echart(
            {
                "color": ["#0f766e"],
                "grid": {"left": 60, "right": 16, "top": 16, "bottom": 32},
                "tooltip": {"trigger": "axis", "renderMode": "richText"},
                "xAxis": {"type": "time"},
                "yAxis": {"type": "value", "min": 0, "splitLine": {"lineStyle": {"opacity": 0.3}}},
                "series": [{**SMOOTH, "name": name, "data": []}],
            }
        ).style("height: 14rem; width: 100%")

    def show(self, kept: list[Point], now: Point | None = None) -> None:
        """Show points; `now` is added to those that this page saw itself."""
        if now is not None:
            self._fresh = [*self._fresh[-500:], now]
        last = kept[-1][0] if kept else 0
        points = [*kept, *(point for point in self._fresh if point[0] > last)]
        self._chart.options["series"][0]["data"] = [list(point) for point in points]
        self._chart.update()


def line_chart(name: str) -> LineChart:
    """A chart of one value over time."""
    return LineChart(name)


def bar_chart(labels: list[str], values: list[float]) -> None:
    """A bar for each label."""
    options: dict[str, Any] = {
        "color": ["#0f766e"],
        "grid": {"left": 60, "right": 16, "top": 16, "bottom": 40},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "xAxis": {"type": "category", "data": labels},
        "yAxis": {"type": "value", "minInterval": 1},
        "series": [{"type": "bar", "data": values, "itemStyle": {"borderRadius": [4, 4, 0, 0]}}],
    }
    ui.echart(options).style("height: 18rem; width: 100%")
