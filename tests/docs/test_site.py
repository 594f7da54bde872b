"""The site: built without a warning, links and anchors lead somewhere, every public name is there, it works offline."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from ariane.broker.config.table import BROKER_TABLE
from ariane.filterserver.config import FILTER_SERVER_TABLE
from ariane.namesrv.config import NAMESRV_TABLE
from scripts import names, site
from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.slow  # the generator, and a browser

PUBLIC = ("ariane", "ariane.aio", "ariane.app", "ariane.guarantee", "ariane.spark")
"""Packages whose `__all__` is the public API; other pages of the reference list what their modules define."""


class Page(HTMLParser):
    """The anchors of a page, what it links to, and what a browser loads with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values.get("id", ""), values.get("name", "")} - {""}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if "src" in values:
            self.loads.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loads.append(values["href"])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "scripts.site", "--to", str(folder / "site"), "--stage", str(folder / "stage")]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=280, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in built.rglob("*.html") if path.name != "404.html"}


def test_every_page_is_built(pages: dict[Path, Page], built: Path) -> None:
    names = {path.relative_to(built).with_suffix("").as_posix() for path in pages}
    assert {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")} <= names
    assert {f"api/{name}" for name in site.PAGES} | {"changelog", "architecture", "examples", "deploy"} <= names


def test_every_link_and_anchor_leads_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            known = pages.get(target)
            if not target.exists() or (parts.fragment and known and unquote(parts.fragment) not in known.anchors):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_nothing_is_fetched_from_elsewhere(pages: dict[Path, Page]) -> None:
    assert {url for page in pages.values() for url in page.loads if "//" in url} == set()


def test_every_public_name_is_documented(pages: dict[Path, Page], built: Path) -> None:
    anchors = set().union(*(page.anchors for path, page in pages.items() if path.parent == built / "api"))
    missing = []
    for module in PUBLIC:
        for name in site.public_names(module):
            if not {f"{module}.{name}", f"{site.home(module, name)}.{name}"} & anchors:
                missing.append(f"{module}.{name}")
    assert missing == []


def test_every_name_option_and_command_is_listed_with_its_page(pages: dict[Path, Page], built: Path) -> None:
    """The links themselves are checked above, with those of all pages."""
    listed = pages[built / "names.html"].links
    for module in PUBLIC:
        for name in site.public_names(module):
            assert any(link.endswith(f"#{site.documented(module, name)}") for link in listed), f"{module}.{name}"
    text = names.page()
    for table in (BROKER_TABLE, NAMESRV_TABLE, FILTER_SERVER_TABLE):
        assert {option.name for option in table if option.used and f"| `{option.name}` | [" not in text} == set()
    unguided = [line for line in text.splitlines() if line.startswith("| `ariane ") and line.endswith("|  |")]
    assert unguided == [], "commands that no guide shows"


def test_every_name_of_a_public_package_is_on_a_page() -> None:
    listed = {one for page in site.PAGES for one in site.names_of(page)}
    assert {(module, name) for module in PUBLIC for name in site.public_names(module)} <= listed


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize(
    ("page", "words", "found"),
    [("index.html", "fileReservedTime", "configuration.html"), ("zh/index.html", "事务消息", "transactions.html")],
)
def test_the_search_works_from_a_folder(built: Path, browser: object, page: str, words: str, found: str) -> None:
    """Opened as files, without a web server; nothing else is asked for."""
    tab = browser.new_page()  # type: ignore[attr-defined]
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto((built / page).as_uri())
    result = tab.locator(f'a[href*="{found}"]:visible', has_text=words)
    assert result.count() == 0
    tab.keyboard.press("Control+k")
    tab.keyboard.type(words)
    result.first.wait_for(timeout=60_000)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    tab.close()


def test_a_page_fits_a_phone(built: Path, browser: object) -> None:
    tab = browser.new_page(viewport={"width": 390, "height": 844})  # type: ignore[attr-defined]
    for name in ("index.html", "configuration.html", "migrate.html", "zh/send.html"):
        tab.goto((built / name).as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
    tab.close()
