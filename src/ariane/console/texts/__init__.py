"""The words of the pages: one catalogue a language, `en.json` and `zh.json`, with the same keys."""

import json
from functools import cache
from importlib.resources import files
from typing import Final

LANGUAGES: Final = {"en": "English", "zh": "中文"}


@cache
def catalogue(language: str) -> dict[str, str]:
    """All texts of a language by key."""
    found: dict[str, str] = json.loads((files("ariane.console.texts") / f"{language}.json").read_text("utf-8"))
    return found


def text(language: str, key: str) -> str:
    """A text; a key that no catalogue has is an error of ours."""
    return catalogue(language)[key]


def preferred(accept_language: str) -> str:
    """The language that a browser asks for, of those that we have.

    >>> preferred("de, zh-CN;q=0.8, en;q=0.5"), preferred("")
    ('zh', 'en')
    """
    wanted: list[tuple[float, str]] = []
    for part in accept_language.split(",")[:20]:
        name, _, quality = part.strip().partition(";q=")
        try:
            weight = float(quality) if quality else 1.0
        except ValueError:
            continue
        if name[:2].lower() in LANGUAGES:
            wanted.append((weight, name[:2].lower()))
    return max(wanted, key=lambda one: one[0], default=(0.0, "en"))[1]
