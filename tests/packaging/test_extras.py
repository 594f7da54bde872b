"""An extra brings all that its page and its examples import."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest
from packaging.requirements import Requirement

from tests.docs.pages import DOCS, ROOT, blocks

PAGES = {
    "send.md": "",
    "consume.md": "",
    "transactions.md": "",
    "filters.md": "",
    "admin.md": "",
    "testing.md": "broker",
    "tutorial.md": "app,broker",
    "app.md": "app,celery,taskiq",
    "migrate.md": "app,celery",
    "guarantee.md": "guarantee,broker",
    "spark.md": "spark",
}
"""The extras that a page tells to install."""
OF_READERS = {"pytest"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def brought(name: str, extras: frozenset[str]) -> frozenset[str]:
    """The distributions that `pip install name[extras]` installs."""
    found = {normal(name)}
    try:
        rows = requires(name) or []
    except PackageNotFoundError:  # for another platform
        return frozenset(found)
    for row in rows:
        one = Requirement(row)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in {*extras, ""}):
            wanted = frozenset(one.extras)
            if normal(one.name) not in found or wanted:
                found |= brought(one.name, wanted) if normal(one.name) != normal(name) else brought(name, wanted)
    return frozenset(found)


@cache
def installed() -> dict[str, list[str]]:
    """The distributions of each importable name."""
    return dict(packages_distributions())


def imported(code: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"ariane"} - OF_READERS


def missing(code: str, extras: str) -> set[str]:
    there = brought("ariane", frozenset(filter(None, extras.split(","))))
    distributions = installed()
    return {name for name in imported(code) if not {normal(one) for one in distributions.get(name, [])} & there}


@pytest.mark.parametrize("page", PAGES)
def test_an_extra_brings_what_its_page_imports(page: str) -> None:
    for code in blocks(DOCS / page, "python"):
        assert missing(code, PAGES[page]) == set(), code


def test_the_extras_of_an_example_bring_what_it_imports() -> None:
    rows = re.findall(r"^\| `(\w+\.py)` \|.*\| (.+?) \|$", (ROOT / "examples" / "README.md").read_text(), re.MULTILINE)
    assert rows
    for name, install in rows:
        extras = ",".join(re.findall(r"ariane\[([\w,]+)\]", install))
        also = {re.split(r"\W", one)[0] for one in re.findall(r"`([^`]+)`", install)}
        assert missing((ROOT / "examples" / name).read_text(), extras) - also == set(), name


def test_a_missing_package_would_be_found() -> None:
    assert missing("import sqlalchemy", "app") == {"sqlalchemy"}
    assert missing("import sqlalchemy", "guarantee") == set()


def test_every_extra_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in DOCS.glob("*.md"))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in set(extras) - {"all"}:
        assert re.search(rf"(ariane|\.)\[[\w,]*\b{extra}\b", text), extra
