"""What tests read of the pages: their headings, code blocks and commands."""

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^(#+) +(.+?)(?: \{ *#([\w-]+) *\})?$", re.MULTILINE)


def blocks(page: Path, language: str = "") -> list[str]:
    """The code blocks of a page, those in tabs too; of one language, or all."""
    found = FENCE.findall(page.read_text())
    return [textwrap.dedent(code) for _, name, code in found if language in ("", name)]


def headings(page: Path) -> list[tuple[int, str]]:
    """Level and anchor of each heading."""
    prose = FENCE.sub("", page.read_text())
    return [(len(marks), anchor or slug(title)) for marks, title, anchor in HEADING.findall(prose)]


def slug(title: str) -> str:
    """The anchor of a heading without one of its own."""
    plain = re.sub(r"<[^>]+>", "", title)
    return re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
