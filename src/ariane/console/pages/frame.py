"""The frame around every page: header, navigation, language, light and dark."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from nicegui import ui

from ariane.console.pages.view import View, page_link
from ariane.console.rights import may_see
from ariane.console.texts import LANGUAGES

ICONS: Final = {
    "cluster": "hub",
    "topics": "topic",
    "groups": "groups",
    "messages": "mail",
    "trace": "timeline",
    "dead-letters": "unsubscribe",
    "producers": "upload",
    "transactions": "handshake",
    "delays": "schedule",
    "audit": "history",
    "users": "manage_accounts",
}
"""The pages of the navigation; the others are reached from these."""
PARENTS: Final = {"broker": "cluster", "topic": "topics", "group": "groups", "message": "messages"}

STYLE: Final = """
:root { --accent: #0f766e; --line: #e2e8f0; --soft: #475569; --paper: #ffffff; --ground: #f1f5f9; }
.body--dark { --accent: #2dd4bf; --line: #334155; --soft: #a3b3c7; --paper: #1e293b; --ground: #0f172a; }
body { font-family: system-ui, "Noto Sans CJK SC", sans-serif; }
.q-layout, body.body--light { background: var(--ground); } body.body--dark { background: var(--ground); }
.console-header { background: #134e4a !important; color: #fff; }
.console-drawer { background: var(--paper) !important; border-right: 1px solid var(--line); padding: .75rem .5rem; }
.nav-item { display: flex; gap: .75rem; align-items: center; padding: .5rem .75rem; border-radius: .5rem;
  color: inherit; text-decoration: none; font-size: .95rem; width: 100%; }
.nav-item:hover { background: var(--ground); } .nav-item .q-icon { color: var(--soft); font-size: 1.25rem; }
.nav-item[aria-current=page] { background: color-mix(in srgb, var(--accent) 14%, transparent); font-weight: 600; }
.nav-item[aria-current=page] .q-icon { color: var(--accent); }
a:focus-visible, button:focus-visible { outline: 3px solid #5eead4 !important; outline-offset: 2px; }
.content { max-width: 90rem; margin: 0 auto; padding: 1.25rem; width: 100%; gap: 1rem; }
.page-title { font-size: 1.5rem; font-weight: 650; letter-spacing: -.02em; line-height: 1.25; margin: 0;
  overflow-wrap: anywhere; }
.page-lead { color: var(--soft); max-width: 60rem; }
.panel { background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; padding: 1rem 1.25rem;
  width: 100%; }
.panel-title { font-size: 1.05rem; font-weight: 600; margin: 0; line-height: 1.5; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; width: 100%; }
.tile { background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; padding: .75rem 1rem; }
.tile-name { color: var(--soft); font-size: .85rem; } .tile-value { font-size: 1.5rem; font-weight: 650;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; line-height: 1.3; }
.data-table { background: var(--paper); border-radius: .75rem; border-color: var(--line) !important; }
.data-table th { color: var(--soft); font-weight: 600; } .data-table td { font-variant-numeric: tabular-nums; }
.cell-link { color: var(--accent); font-weight: 550; text-decoration: none; }
.cell-link:hover { text-decoration: underline; }
.cell-badge { font-size: .75rem; padding: .2rem .45rem; }
.mono, .body-text { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .85rem; }
.body-text { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30rem; overflow: auto; width: 100%;
  background: var(--ground); border-radius: .5rem; padding: .75rem; }
.table-filter { width: min(22rem, 70vw); } .count { color: var(--soft); font-size: .85rem; }
.problem { background: #fee2e2; color: #7f1d1d; border-radius: .5rem; padding: .5rem .75rem; width: 100%; }
.warn { background: #fef3c7; color: #713f12; border-radius: .5rem; padding: .5rem .75rem; width: 100%; }
.dialog { min-width: min(30rem, 92vw); max-width: 60rem; } .dialog-title { font-size: 1.15rem; font-weight: 600; }
.dialog-text { color: var(--soft); white-space: pre-line; }
.map { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem; width: 100%; }
.broker-card { border: 1px solid var(--line); border-left: 4px solid var(--accent); border-radius: .75rem;
  background: var(--paper); padding: .85rem 1rem; display: flex; flex-direction: column; gap: .35rem; width: 100%; }
.broker-card.slave { border-left-color: #64748b; } .broker-card.gone { border-left-color: #dc2626; }
.broker-name { font-weight: 600; color: inherit; text-decoration: none; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .92rem; width: 100%; }
.facts .fact-name { color: var(--soft); } .facts .fact-value { overflow-wrap: anywhere; }
.wire { height: 1.25rem; width: 2px; background: var(--line); margin: 0 auto; }
.soft { color: var(--soft); font-size: .88rem; }
@media (max-width: 600px) { .content { padding: .75rem; } .hide-phone { display: none !important; } }
"""
KEYS: Final = """
<script>
document.addEventListener('keydown', event => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '/') {
    const field = document.querySelector('.table-filter input');
    if (field) { field.focus(); event.preventDefault(); }
  }
});
</script>
"""


@contextmanager
def frame(view: View) -> Iterator[None]:
    """Build the frame; the page's content goes inside."""
    session, user = view.visitor.session, view.visitor.user
    ui.add_css(STYLE)
    ui.add_head_html(KEYS)
    ui.colors(primary="#0f766e", secondary="#475569", accent="#0f766e", positive="#15803d", negative="#b91c1c")
    ui.dark_mode(session.dark)
    ui.page_title(f"{view.t('page.' + view.page)} · {view.cluster.name} · Ariane")

    def set_language(language: str) -> None:
        session.language = language
        ui.navigate.reload()

    def set_dark() -> None:
        session.dark = not session.dark
        ui.navigate.reload()

    current = PARENTS.get(view.page, view.page)
    drawer = ui.left_drawer(value=None).classes("console-drawer").props("width=220 breakpoint=900 show-if-above")
    with drawer:
        navigation = ui.element("nav").classes("w-full")
        navigation.props["aria-label"] = view.t("navigation")
        with navigation:
            for name, icon in ICONS.items():
                if name in view.console.pages and may_see(user.role, name):
                    with ui.element("a").classes("nav-item") as item:
                        item.props["href"] = view.link(name)
                        if name == current:
                            item.props["aria-current"] = "page"
                        ui.icon(icon).props("aria-hidden=true")
                        ui.label(view.t(f"page.{name}"))
    with ui.header().classes("console-header items-center gap-2 px-3 py-2"):
        menu = ui.button(icon="menu", on_click=drawer.toggle).props("flat round dense color=white")
        menu.props["aria-label"] = view.t("navigation")
        ui.label("Ariane").classes("text-lg font-semibold")
        clusters = list(view.console.clusters)
        if len(clusters) > 1:
            choice = ui.select(
                clusters,
                value=view.cluster.name,
                on_change=lambda event: ui.navigate.to(page_link(event.value, current)),
            ).props("dense dark outlined options-dense")
            choice.props["aria-label"] = view.t("clusters")
        else:
            ui.label(view.cluster.name).classes("opacity-80 hide-phone")
        ui.space()
        with ui.button(icon="translate").props("flat round dense color=white") as languages:
            languages.props["aria-label"] = view.t("language")
            with ui.menu():
                for code, name in LANGUAGES.items():
                    ui.menu_item(name, on_click=lambda code=code: set_language(code))
        shade = ui.button(icon="light_mode" if session.dark else "dark_mode", on_click=set_dark)
        shade.props("flat round dense color=white")
        shade.props["aria-label"] = view.t("dark")
        with ui.button(icon="account_circle").props("flat dense no-caps color=white") as account:
            account.props["aria-label"] = view.t("account")
            ui.label(user.name).classes("hide-phone ml-1")
            with ui.menu(), ui.column().classes("p-3 gap-2"):
                ui.label(user.name).classes("font-semibold")
                ui.label(view.t(f"role.{user.role.name.lower()}")).classes("soft")
                ui.button(view.t("password.title"), on_click=lambda: ui.navigate.to("/password")).props(
                    "flat no-caps dense"
                )
                with ui.element("form").props("method=post action=/logout"):
                    hidden = ui.element("input").props("type=hidden name=csrf")
                    hidden.props["value"] = session.csrf
                    with ui.element("button").props("type=submit").classes("nav-item"):
                        ui.label(view.t("logout"))
    with ui.element("main").classes("content column"):
        yield


def title(text: str, lead: str | None = None) -> None:
    """The title of a page."""
    heading = ui.element("h1").classes("page-title")
    with heading:
        ui.label(text)
    if lead:
        ui.label(lead).classes("page-lead")


@contextmanager
def panel(text: str | None = None) -> Iterator[None]:
    """A part of a page in a box."""
    with ui.column().classes("panel gap-2"):
        if text is not None:
            with ui.element("h2").classes("panel-title"):
                ui.label(text)
        yield


def facts(pairs: list[tuple[str, str]]) -> None:
    """Names and values in two columns."""
    with ui.element("div").classes("facts"):
        for name, value in pairs:
            ui.label(name).classes("fact-name")
            ui.label(value).classes("fact-value")
