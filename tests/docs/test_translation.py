"""The Chinese pages follow the English ones: the same headings, the same code, tables of the same size.

A heading of a translation has the anchor of the English one, so that links lead to the same place in both. A page that
begins with `overview: true` may leave sections out, but keeps the order of the English page.
"""

import re
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import DOCS, FENCE, blocks, headings

TRANSLATED = sorted((DOCS / "zh").glob("*.md"))
NAMES = [page.name for page in TRANSLATED]
OVERVIEWS = {"replication", "operate"}
"""Pages beside the start and the guides, of which the Chinese ones may be shorter."""


def is_overview(page: Path) -> bool:
    return page.read_text().startswith("---\noverview: true\n")


def without_comments(code: str) -> list[str]:
    return [re.sub(r"\s*#.*", "", line).rstrip() for line in code.splitlines()]


def table_rows(page: Path) -> int:
    return len(re.findall(r"^\|", FENCE.sub("", page.read_text()), re.MULTILINE))


def test_the_start_and_the_guides_are_translated_whole() -> None:
    sections = {
        name: pages for part in yaml.safe_load((DOCS / "site.yml").read_text())["nav"] for name, pages in part.items()
    }
    pages = {name for section in ("Start", "Guides") for page in sections[section] for name in page.values()}
    wanted = {name for name in pages if (DOCS / name).exists()} | {"index.md"}  # the examples are programs
    assert wanted <= {page.name for page in TRANSLATED if not is_overview(page)}
    assert {page.stem for page in TRANSLATED if is_overview(page)} <= OVERVIEWS


@pytest.mark.parametrize("page", TRANSLATED, ids=NAMES)
def test_a_translation_has_the_headings_of_its_page(page: Path) -> None:
    ours, english = headings(page), headings(DOCS / page.name)
    if is_overview(page):
        rest = iter(english)
        assert all(heading in rest for heading in ours), "a heading that is not there, or in another order"
    else:
        assert ours == english


@pytest.mark.parametrize("page", TRANSLATED, ids=NAMES)
def test_a_translation_has_the_code_of_its_page(page: Path) -> None:
    ours, english = ([without_comments(code) for code in blocks(one)] for one in (page, DOCS / page.name))
    if is_overview(page):
        assert [code for code in ours if code not in english] == []
    else:
        assert ours == english


@pytest.mark.parametrize("page", [page for page in TRANSLATED if not is_overview(page)], ids=lambda page: page.name)
def test_a_translation_has_every_row_of_the_tables(page: Path) -> None:
    assert table_rows(page) == table_rows(DOCS / page.name)


@pytest.mark.parametrize("page", TRANSLATED, ids=NAMES)
def test_a_translation_is_chinese(page: Path) -> None:
    assert len(re.findall(r"[\u4e00-\u9fff]", page.read_text())) > 200
