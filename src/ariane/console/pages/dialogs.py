"""Dialogs: every change asks first, and says what it will do."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from ariane.console.pages.view import View


async def confirm(
    view: View, title: str, text: str, *, word: str | None = None, show: Callable[[], Any] | None = None
) -> bool:
    """Ask before a change. With `word`, it must be typed; `show` adds content such as a preview."""
    with ui.dialog() as dialog, ui.card().classes("dialog"):
        dialog.props["aria-label"] = title
        ui.label(title).classes("dialog-title")
        ui.label(text).classes("dialog-text")
        if show is not None:
            show()
        typed = None
        if word is not None:
            typed = ui.input(view.t("confirm.type", word=word)).classes("w-full").props("outlined dense autofocus")
        with ui.row().classes("dialog-actions w-full justify-end gap-2"):
            ui.button(view.t("cancel"), on_click=lambda: dialog.submit(False)).props("flat no-caps")
            yes = ui.button(view.t("confirm"), on_click=lambda: dialog.submit(True)).props("unelevated no-caps")
            yes.mark("confirm")
            if typed is not None:
                yes.props("color=negative")
                yes.bind_enabled_from(typed, "value", lambda value: value == word)
    dialog.open()
    answer = await dialog
    dialog.delete()
    return answer is True and (typed is None or typed.value == word)


def show_once(view: View, title: str, text: str, secret: str) -> None:
    """Show a secret that is stored nowhere; a click beside the dialog does not close it."""
    with ui.dialog().props("persistent") as dialog, ui.card().classes("dialog"):
        dialog.props["aria-label"] = title
        ui.label(title).classes("dialog-title mono")
        ui.label(text).classes("dialog-text")
        ui.label(secret).classes("body-text").mark("secret")
        ui.button(view.t("close"), on_click=dialog.close).props("flat no-caps")
    dialog.on("hide", dialog.delete)
    dialog.open()


async def ask(
    view: View, title: str, text: str, fields: Callable[[], Callable[[], dict[str, Any]]], button: str
) -> dict[str, Any] | None:
    """A form: `fields` builds it and returns what reads it. None when it is cancelled."""
    with ui.dialog() as dialog, ui.card().classes("dialog"):
        dialog.props["aria-label"] = title
        ui.label(title).classes("dialog-title")
        if text:
            ui.label(text).classes("dialog-text")
        read = fields()
        with ui.row().classes("dialog-actions w-full justify-end gap-2"):
            ui.button(view.t("cancel"), on_click=lambda: dialog.submit(None)).props("flat no-caps")
            ui.button(button, on_click=lambda: dialog.submit(True)).props("unelevated no-caps").mark("submit")
    dialog.open()
    answer = await dialog
    values = read() if answer is True else None
    dialog.delete()
    return values
