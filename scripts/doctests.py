"""An extension of griffe for the API reference: doctests in docstrings become code blocks."""

from typing import Any

from griffe import Extension, Object


def fenced(text: str) -> str:
    """A docstring with its doctests as code blocks.

    >>> fenced("Add.\\n\\n>>> 1 + 1\\n2")
    'Add.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    parts = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        start = next((at for at, line in enumerate(lines) if line.lstrip().startswith(">>> ")), None)
        if start is None:
            parts.append(paragraph)
            continue
        before = lines[:start]
        parts.append("\n".join([*before, *([""] if before else []), "```pycon", *lines[start:], "```"]))
    return "\n\n".join(parts)


class Doctests(Extension):
    """Rewrites each docstring when griffe has read it."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
