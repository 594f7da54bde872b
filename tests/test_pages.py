"""The pages: every link leads somewhere, and every page can be reached from the README."""

import re
from pathlib import Path

import pytest

from ariane.broker import BrokerOptions
from tests.docs.pages import headings as page_headings

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/peers/*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def links(page: Path) -> list[tuple[Path, str]]:
    """The files that a page links to, and the headings in them."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    found = [link.partition("#") for link in LINK.findall(prose) if "://" not in link]
    return [((page.parent / path).resolve() if path else page, heading) for path, _, heading in found]


def headings(page: Path) -> set[str]:
    """The names by which a page's headings are linked."""
    return {anchor for _, anchor in page_headings(page)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target, heading in links(page):
        assert target.exists(), target
        assert not heading or heading in headings(target), (target, heading)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_can_be_copied_from_a_page(page: Path) -> None:
    """Properties files know no comment after a value: it would become part of the value."""
    names = {option.name for option in BrokerOptions.load("").settings.table}
    lines = re.findall(r"^ *([\w.]+) ?= ?[^`\n]*?\s#.*$", page.read_text(), flags=re.MULTILINE)
    assert names.isdisjoint(lines)


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, new = set(), {ROOT / "README.md"}
    while new:
        page = new.pop()
        reached.add(page)
        new |= {target for target, _ in links(page) if target.suffix == ".md"} - reached
    assert sorted(set(ROOT.glob("docs/**/*.md")) - reached) == []
