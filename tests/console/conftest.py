"""A broker with data, a console over it, and a Chromium for each file of tests."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from ariane import Admin, Message, Producer
from ariane.console.people.guard import COOKIE
from tests.cluster import Cluster, cluster
from tests.console.site import PASSWORD, Site, start_site, write_users

__all__ = ["cluster"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
GRAVE = ("serious", "critical")
expect.set_options(timeout=30_000)  # milliseconds; the machine may be busy
HOSTILE = "<img src=x onerror=\"window.stolen='body'\"><script>window.stolen='script'</script>{{window.stolen='vue'}}"


@pytest.fixture(scope="module")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console over our cluster, which has topics, messages and a group."""
    with Admin(name_servers=cluster.namesrv) as admin:
        admin.create_topic("orders", queues=2)
        admin.create_group("billing")
        with Producer("shop", name_servers=cluster.namesrv) as producer:
            for number in range(5):
                producer.send(Message("orders", f'{{"order": {number}}}'.encode(), keys=[f"o-{number}"], tags="eu"))
            producer.send(Message("orders", HOSTILE.encode(), keys=["hostile"]))
        for queue in admin.queues("orders"):
            admin.commit("billing", queue, 1)
    folder = tmp_path_factory.mktemp("console") / "files"
    write_users(folder)
    running = start_site(folder, cluster.namesrv)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium for the tests of one file.

    Playwright's sync API runs an event loop in this thread until it is closed; tests of other files that are coroutines
    could not start one. So a file that uses this fixture has no coroutine tests.
    """
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


class Tab:
    """A page of the browser that notes errors and failed requests."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page = page
        self.site = site
        self.problems: list[str] = []
        page.on("console", lambda message: self._note(message.type == "error", f"console: {message.text}"))
        page.on("pageerror", lambda error: self._note(True, f"error: {error}"))
        page.on("response", lambda answer: self._note(answer.status >= 400, f"{answer.status} {answer.url}"))
        page.on("requestfailed", lambda request: self._failed(request.url, str(request.failure)))

    def _note(self, bad: bool, text: str) -> None:
        if bad:
            self.problems.append(text)

    def _failed(self, url: str, failure: str) -> None:
        self._note("ERR_ABORTED" not in failure, f"{failure} {url}")  # aborted: the test went to the next page

    def log_in(self, name: str, path: str = "cluster", *, fresh: bool = False) -> None:
        """Open a page as a user: by the form the first time or when `fresh`, then with the session of before.

        A test that ends its session, or changes its language or shade, needs a fresh one.
        """
        context, known = self.page.context, self.site.sessions.get(name)
        if known is not None and not fresh:
            context.add_cookies([known])
            self.show(path)
            return
        self.page.goto(f"{self.site.url}login?next={quote(f'/c/main/{path}', safe='')}")
        self.page.fill("[name=user]", name)
        self.page.fill("[name=password]", PASSWORD)
        self.page.click("button")
        self._await_page()
        if not fresh:
            (cookie,) = [one for one in context.cookies() if one["name"] == COOKIE]
            self.site.sessions[name] = {"name": COOKIE, "value": cookie["value"], "url": self.site.url}

    def picture(self, name: str) -> None:
        """Write what the tab shows to the folder of ARIANE_SCREENSHOTS, if it is set."""
        folder = os.environ.get("ARIANE_SCREENSHOTS")
        if folder:
            self.page.wait_for_timeout(500)  # charts move into place
            self.page.screenshot(path=Path(folder) / f"{name}.png")

    def settle(self) -> None:
        """Wait until the page has what it shows, and its tables have their rows."""
        self.page.wait_for_function(
            "!document.querySelector('.q-table--loading') &&"
            " !!document.querySelector('main :is(.tile-value, .q-table, svg, .empty, input)')"
        )

    def check_access(self, name: str) -> None:
        """Note what axe-core finds serious or critical; the bar of a request on its way has no name in Quasar."""
        self.page.wait_for_function(  # in the middle of a transition colours are of neither side
            "document.getAnimations().every(one => !(one instanceof CSSTransition) || one.playState === 'finished')"
        )
        for one in Axe().run(self.page, context={"exclude": [[".q-loading-bar"]]}).response["violations"]:
            for node in one["nodes"][:3]:
                why = node["any"][0]["message"] if node["any"] else ""
                self._note(one["impact"] in GRAVE, f"{name}: {one['id']} ({one['impact']}): {node['html'][:150]} {why}")

    def turn_dark_and_chinese(self) -> None:
        """Change the shade and the language of a fresh session, on the page of the cluster."""
        self.page.get_by_role("button", name="Light or dark").click()
        expect(self.page.locator("body.body--dark")).to_be_visible()
        self.page.get_by_role("button", name="Language").click()
        self.page.get_by_text("中文").click()
        expect(self.page.get_by_role("heading", name="集群")).to_be_visible()

    def fits(self) -> bool:
        """Whether the page needs no scrolling to the side."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))

    def show(self, path: str) -> None:
        self.page.goto(f"{self.site.url}c/main/{path}")
        self._await_page()

    def _await_page(self) -> None:
        """Wait until the page is built and connected; before that, a reload of the library may lose a click."""
        self.page.wait_for_selector("h1.page-title")
        self.page.wait_for_function("window.did_handshake")


@contextlib.contextmanager
def opened_tab(browser: Browser, site: Site, width: int = 1280) -> Iterator[Tab]:
    """A tab of its own, not logged in; a failed request or an error in it fails the test."""
    context = browser.new_context(viewport={"width": width, "height": 800}, locale="en-US")
    opened = Tab(context.new_page(), site)
    yield opened
    context.close()
    assert opened.problems == []


@pytest.fixture
def tab(browser: Browser, site: Site) -> Iterator[Tab]:
    """A tab over our cluster."""
    with opened_tab(browser, site) as opened:
        yield opened
