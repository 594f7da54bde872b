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
    "history": "show_chart",
    "alarms": "notifications",
    "access": "key",
    "audit": "history",
    "users": "manage_accounts",
}
"""The pages of the navigation; the others are reached from these."""
KEYS_OF: Final = {
    "cluster": "c", "topics": "t", "groups": "g", "messages": "m", "trace": "r", "dead-letters": "d",
    "producers": "p", "transactions": "x", "delays": "w", "history": "h", "alarms": "a", "access": "k",
    "audit": "l", "users": "u",
}  # fmt: skip
"""The key that opens a page after `g`."""
SECTIONS: Final = {"cluster": "see", "messages": "find", "history": "watch", "access": "manage"}
"""The page that begins a section of the navigation."""
AGAIN: Final = 10  # seconds until a page that could not be built is built again
PARENTS: Final = {"broker": "cluster", "topic": "topics", "group": "groups", "message": "messages"}

STYLE: Final = """
:root { --accent: #0f766e; --line: #e2e8f0; --soft: #475569; --paper: #ffffff; --ground: #f1f5f9; --wire: #94a3b8; }
.body--dark { --accent: #2dd4bf; --line: #334155; --soft: #a3b3c7; --paper: #1e293b; --ground: #0f172a;
  --wire: #64748b; }
body { font-family: system-ui, "Noto Sans CJK SC", sans-serif; }
.q-layout, body.body--light { background: var(--ground); } body.body--dark { background: var(--ground); }
.console-header { background: #134e4a !important; color: #fff; }
.console-drawer { background: var(--paper) !important; border-right: 1px solid var(--line); padding: .75rem .5rem; }
.nav-item { display: flex; gap: .75rem; align-items: center; padding: .5rem .75rem; border-radius: .5rem;
  color: inherit; text-decoration: none; font-size: .95rem; width: 100%; }
.nav-item:hover { background: var(--ground); } .nav-item .q-icon { color: var(--soft); font-size: 1.25rem; }
.nav-item[aria-current=page] { background: color-mix(in srgb, var(--accent) 14%, transparent); font-weight: 600; }
.nav-item[aria-current=page] .q-icon { color: var(--accent); }
a:focus-visible, button:focus-visible, [tabindex]:focus-visible { outline: 3px solid #5eead4 !important;
  outline-offset: 2px; }
.content { max-width: 90rem; margin: 0 auto; padding: 1.25rem; width: 100%; gap: 1rem; }
.page-title { font-size: 1.5rem; font-weight: 650; letter-spacing: -.02em; line-height: 1.25; margin: 0;
  overflow-wrap: anywhere; }
.page-lead { color: var(--soft); max-width: 60rem; }
.panel { background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; padding: 1rem 1.25rem;
  width: 100%; }
.panel-title { font-size: 1.05rem; font-weight: 600; margin: 0; line-height: 1.5; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .75rem; width: 100%; }
.tile { background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; padding: .75rem; }
.tile-name { color: var(--soft); font-size: .85rem; } .tile-value { font-size: 1.5rem; font-weight: 650;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; line-height: 1.3; }
.data-table { background: var(--paper); border-radius: .75rem; border-color: var(--line) !important; }
.data-table th { color: var(--soft); font-weight: 600; } .data-table td { font-variant-numeric: tabular-nums; }
.cell-link { color: var(--accent); font-weight: 550; text-decoration: none; }
.cell-link:hover { text-decoration: underline; }
.cell-long { display: inline-block; min-width: 14rem; max-width: 30rem; max-height: 10rem;
  overflow: auto; white-space: normal; overflow-wrap: anywhere; }
.cell-badge { font-size: .75rem; padding: .2rem .45rem; }
.mono, .body-text { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .85rem; }
.body-text { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30rem; overflow: auto; width: 100%;
  background: var(--ground); border-radius: .5rem; padding: .75rem; }
.table-filter { width: min(22rem, 70vw); } .count { color: var(--soft); font-size: .85rem; }
.problem { background: #fee2e2; color: #7f1d1d; border-radius: .5rem; padding: .5rem .75rem; width: 100%; }
.warn { background: #fef3c7; color: #713f12; border-radius: .5rem; padding: .5rem .75rem; width: 100%; }
.tile-value.words { font-size: .9rem; line-height: 2.15; }
.dialog { min-width: min(30rem, 92vw); max-width: 60rem; } .dialog-title { font-size: 1.15rem; font-weight: 600; }
.dialog-actions { position: sticky; bottom: -1rem; margin-bottom: -1rem; padding: .6rem 0 1rem; background: inherit;
  z-index: 1; }
.dialog-text { color: var(--soft); white-space: pre-line; }
.broker-card { border: 1px solid var(--line); border-left: 4px solid var(--accent); border-radius: .75rem;
  background: var(--paper); padding: .85rem 1rem; display: flex; flex-direction: column; gap: .35rem; width: 100%; }
.broker-card.slave { border-left-color: #64748b; } .broker-card.gone { border-left-color: #dc2626; }
.broker-name { font-weight: 600; color: inherit; text-decoration: none; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .92rem; width: 100%; }
.facts .fact-name { color: var(--soft); } .facts .fact-value { overflow-wrap: anywhere; }
.nav-section { color: var(--soft); font-size: .72rem; font-weight: 600; text-transform: uppercase;
  letter-spacing: .06em; padding: .9rem .75rem .25rem; } .nav-section:first-child { padding-top: 0; }
.nav-count { margin-left: auto; background: #b91c1c; color: #fff; border-radius: 1rem; font-size: .75rem;
  padding: 0 .5rem; font-weight: 600; }
.crumb { font-size: .88rem; color: var(--accent); text-decoration: none; margin-bottom: -.75rem; }
.crumb:hover { text-decoration: underline; }
.topology { background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; padding: 1.25rem;
  width: 100%; overflow: hidden; }
.servers { display: flex; flex-wrap: wrap; justify-content: center; gap: .6rem; }
.server { display: flex; align-items: center; gap: .5rem; padding: .4rem .9rem; border-radius: 2rem;
  background: color-mix(in srgb, var(--accent) 12%, var(--paper)); border: 1px solid var(--accent);
  font-size: .9rem; font-variant-numeric: tabular-nums; }
.trunk { width: 2px; height: 1.4rem; background: var(--wire); margin: 0 auto; }
.sets { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(15.5rem, 100%), 1fr)); gap: 0 1rem; }
.set { position: relative; padding: 1.4rem .5rem 1rem; border-top: 2px solid var(--wire); margin: 0 -.5rem; }
.set:only-child { border-top: 0; }
.set::before { content: ""; position: absolute; top: 0; left: 50%; width: 2px; height: 1.4rem;
  background: var(--wire); }
.set-box { border: 1px dashed var(--wire); border-radius: .9rem; padding: .75rem; display: flex; flex-direction: column;
  max-width: 26rem; margin: 0 auto; }
.set-name { display: flex; justify-content: space-between; gap: .5rem; align-items: baseline; padding: 0 .25rem .5rem; }
.set-title { font-weight: 650; overflow-wrap: anywhere; }
.copy { display: flex; align-items: center; justify-content: center; gap: .35rem; font-size: .82rem; color: var(--soft);
  padding: .3rem 0; } .copy.late { color: #b45309; font-weight: 600; } .body--dark .copy.late { color: #fbbf24; }
.rates { display: flex; gap: .3rem; font-variant-numeric: tabular-nums; font-size: .95rem; align-items: center; }
.rate-icon { color: var(--accent); font-size: 1rem; } .rate-icon:not(:first-child) { margin-left: .9rem; }
.spark { width: 100%; height: 2rem; display: block; } .spark polyline { fill: none; stroke: var(--accent);
  stroke-width: 1.6; vector-effect: non-scaling-stroke; }
.dot { width: .6rem; height: .6rem; border-radius: 50%; background: #16a34a; flex: none; }
.gone .dot { background: #dc2626; } .server.gone { border-color: #dc2626; }
.badge-role { font-size: .75rem; padding: .1rem .5rem; border-radius: 1rem;
  background: var(--ground); color: var(--soft); } .master .badge-role { background: #0f766e; color: #fff; }
.empty { display: flex; flex-direction: column; align-items: center; gap: .4rem; padding: 2rem 1rem; color: var(--soft);
  text-align: center; width: 100%; } .empty .q-icon { font-size: 2.2rem; opacity: .6; }
.good-note { background: #dcfce7; color: #14532d; border-radius: .5rem; padding: .5rem .75rem; width: 100%; }
.steps { display: flex; flex-direction: column; gap: .5rem; width: 100%; }
.step { display: flex; gap: .6rem; align-items: flex-start; } .step .q-icon { font-size: 1.3rem; }
.search-grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(15rem, 100%), 1fr)); gap: .75rem;
  width: 100%; align-items: center; }
.chart-name { color: var(--soft); font-size: .88rem; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(28rem, 100%), 1fr)); gap: 1rem; width: 100%; }
.body--dark .text-primary { --q-primary: #5eead4; } .body--dark .text-negative { --q-negative: #fca5a5; }
.soft { color: var(--soft); font-size: .88rem; }
@media (max-width: 600px) { .content { padding: .75rem; } .hide-phone { display: none !important; } }
"""
KEYS: Final = """
<script>
(() => {
  let prefix = false;
  document.addEventListener('keydown', event => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/') {
      const field = [...document.querySelectorAll('.table-filter input')].find(one => one.offsetParent);
      if (field) { field.focus(); event.preventDefault(); }
    } else if (event.key === '?') {
      document.querySelector('.keys-button').click();
    } else if (prefix) {
      const target = document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`);
      if (target) target.click();
    }
    prefix = !prefix && event.key === 'g';
  });
  const reach = () => {  // what scrolls can be scrolled by keys
    for (const one of document.querySelectorAll('.q-table__middle:not([tabindex]), .body-text:not([tabindex])')) {
      one.tabIndex = 0;
    }
  };
  new MutationObserver(reach).observe(document, {childList: true, subtree: true});
  setInterval(async () => {  // the console was started again, which ended the session: lead to the login
    if (!window.socket || window.socket.connected) return;
    const answer = await fetch('/password').catch(() => null);
    if (answer && answer.status === 401) location.reload();
  }, 3000);
})();
</script>
"""


@contextmanager
def frame(view: View) -> Iterator[ui.element]:
    """Build the frame; the page's content goes inside."""
    session, user = view.visitor.session, view.visitor.user
    ui.on_exception(view.failed)
    ui.add_css(STYLE)
    ui.add_head_html(KEYS)
    ui.add_head_html(f"<script>document.documentElement.lang = '{session.language}'</script>")
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
    # Quasar opens it above the breakpoint; asking the browser for its width, as value=None does, would delay each page.
    drawer = ui.left_drawer(value=False).classes("console-drawer").props("width=232 breakpoint=900 show-if-above")
    alarms = sum(one.cluster == view.cluster.name for one in view.console.alarms.active)
    with drawer:
        navigation = ui.element("nav").classes("w-full")
        navigation.props["aria-label"] = view.t("navigation")
        with navigation:
            section = ""
            for name, icon in ICONS.items():
                section = SECTIONS.get(name, "") or section
                if name not in view.console.pages or not may_see(user.role, name):
                    continue
                if section:
                    ui.label(view.t(f"section.{section}")).classes("nav-section")
                    section = ""
                with ui.element("a").classes("nav-item") as item:
                    item.props["href"] = view.link(name)
                    item.props["data-key"] = KEYS_OF[name]
                    if name == current:
                        item.props["aria-current"] = "page"
                    ui.icon(icon).props("aria-hidden=true")
                    ui.label(view.t(f"page.{name}"))
                    if name == "alarms" and alarms:
                        ui.label(f"{alarms}").classes("nav-count")
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
        keys = ui.button(icon="keyboard", on_click=lambda: show_keys(view)).props("flat round dense color=white")
        keys.classes("keys-button hide-phone")
        keys.props["aria-label"] = view.t("keys")
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
                if session.outside is None:
                    ui.button(view.t("password.title"), on_click=lambda: ui.navigate.to("/password")).props(
                        "flat no-caps dense"
                    )
                with ui.element("form").props("method=post action=/logout"):
                    hidden = ui.element("input").props("type=hidden name=csrf")
                    hidden.props["value"] = session.csrf
                    with ui.element("button").props("type=submit").classes("nav-item"):
                        ui.label(view.t("logout"))
    with ui.element("main").classes("content column") as content:
        if view.page in PARENTS:
            with ui.element("a").classes("crumb") as crumb:
                crumb.props["href"] = view.link(current)
                ui.label(f"‹ {view.t('page.' + current)}")
        yield content


def show_keys(view: View) -> None:
    """The keys that pages know."""
    with ui.dialog() as dialog, ui.card().classes("dialog"):
        dialog.props["aria-label"] = view.t("keys")
        ui.label(view.t("keys")).classes("dialog-title")
        pages = [
            (f"g {key}", view.t(f"page.{name}")) for name, key in KEYS_OF.items() if may_see(view.visitor.role, name)
        ]
        facts([("/", view.t("keys.filter")), ("?", view.t("keys")), *pages])
        ui.button(view.t("close"), on_click=dialog.close).props("flat no-caps")
    dialog.on("hide", dialog.delete)
    dialog.open()


def empty(text: str, icon: str = "inbox") -> None:
    """What a page says instead of nothing."""
    with ui.element("div").classes("empty"):
        ui.icon(icon).props("aria-hidden=true")
        ui.label(text)


def unavailable(view: View, content: ui.element, error: Exception) -> None:
    """Say why a page could not be built, and build it again soon."""
    content.clear()
    with content:
        title(view.t(f"page.{view.page}"))
        ui.label(view.t("problem", error=error)).classes("problem").props("role=alert")
        ui.label(view.t("problem.again", seconds=AGAIN)).classes("soft")
        ui.timer(AGAIN, ui.navigate.reload, once=True)


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
