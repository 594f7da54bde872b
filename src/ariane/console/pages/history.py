"""Rates, lag and disk over time, as the console sampled them."""

from nicegui import ui

from ariane.console.pages.charts import LineChart, RangeChoice
from ariane.console.pages.frame import panel, title
from ariane.console.pages.view import View

TOP = 5


async def history_page(view: View) -> None:
    """Charts of the cluster."""
    title(view.t("page.history"), view.t("history.lead"))
    chosen = RangeChoice(view)
    with ui.element("div").classes("two"):
        with panel(view.t("history.in")):
            stored = LineChart(view, view.t("history.in"), chosen)
        with panel(view.t("history.out")):
            delivered = LineChart(view, view.t("history.out"), chosen)
        with panel(view.t("history.lag")):
            lag = LineChart(view, view.t("history.lag"), chosen)
        with panel(view.t("history.disk")):
            disk = LineChart(view, view.t("history.disk"), chosen, percent=True)
        with panel(view.t("history.groups", top=TOP)):
            groups = LineChart(view, view.t("column.lag"), chosen)
        with panel(view.t("history.topics", top=TOP)):
            topics = LineChart(view, view.t("history.in"), chosen)
        with panel(view.t("history.letters", top=TOP)):
            letters = LineChart(view, view.t("column.letters"), chosen)

    def lines(figure: str, most: int, scale: float = 1.0) -> dict[str, list[tuple[int, float]]]:
        since = view.console.now() - int(chosen.hours * 3_600_000)
        names = view.console.history.names(view.cluster.name, figure, since, most)
        return {
            name: [(time, value * scale) for time, value in view.trend(figure, name, chosen.hours)] for name in names
        }

    async def load() -> None:
        stored.show_all(lines("in", 8))
        delivered.show_all(lines("out", 8))
        lag.show(view.trend("lag", "", chosen.hours))
        disk.show_all(lines("disk", 8, 100))
        groups.show_all(lines("lag", TOP))
        topics.show_all(lines("stored", TOP))
        letters.show_all(lines("letters", TOP))

    view.every(15.0, load)
