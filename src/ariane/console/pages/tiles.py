"""Figures in large letters, which change in place."""

from typing import Final

from nicegui import ui

LARGE: Final = 8  # characters that fit a tile in large letters


class Tiles:
    """A row of figures."""

    def __init__(self) -> None:
        self._row = ui.element("div").classes("tiles")
        self._labels: dict[str, ui.label] = {}

    def show(self, values: dict[str, str]) -> None:
        """Show figures by name; the same names only change their values."""
        if self._labels.keys() != values.keys():
            self._row.clear()
            self._labels = {}
            with self._row:
                for name in values:
                    with ui.element("div").classes("tile"):
                        ui.label(name).classes("tile-name")
                        self._labels[name] = ui.label().classes("tile-value")
        for name, value in values.items():
            self._labels[name].set_text(value)
            words = "words" if len(value) > LARGE else ""
            self._labels[name].classes(add=words, remove="" if words else "words")
