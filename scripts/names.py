"""The page names.md of the site: every public name, option and command, with the pages that document it.

The reference of a name is where its definition is explained; guides are the pages that show it. A link without a target
fails the build of the site, so a name cannot be listed without its page.
"""

import dataclasses
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

from ariane.cli.app import app
from scripts import site
from tests.docs.pages import slug

REFERENCE = ("configuration.md", "errors.md", "requests.md", "index.md")
"""Pages that are written from the code or are an overview: no guides."""
MOST_GUIDES = 4
HEAD = """# Every name

Public names of the Python packages, fields of their option classes, options of the servers, and commands: where each
is explained, and which guides show it. Errors and response codes are in [errors](errors.md), metrics in
[metrics](metrics.md), request codes in [request codes](requests.md).
"""


def page() -> str:
    parts = [HEAD, "## Python names", *python_names(), "## Fields of options", *option_fields()]
    parts += ["## Options of servers", *server_options(), "## Commands", *command_rows()]
    return "\n".join([*parts, ""])


def python_names() -> Iterator[str]:
    for name, (title, _, _) in site.PAGES.items():
        yield from ("", f"### {title}", "", "| name | module | guides |", "|---|---|---|")
        for module, public in site.names_of(name):
            target = f"api/{name}.md#{site.documented(module, public)}"
            yield f"| [`{public}`]({target}) | `{module}` | {guides(public)} |"
    yield ""


def option_fields() -> Iterator[str]:
    yield from ("", "| field | class | guides |", "|---|---|---|")
    for name in site.PAGES:
        for module, public in site.names_of(name):
            kind = getattr(importlib.import_module(module), public)
            if public.endswith("Options") and dataclasses.is_dataclass(kind):
                path = site.documented(module, public)
                for field in dataclasses.fields(kind):
                    link = f"[`{field.name}`](api/{name}.md#{path}.{field.name})"
                    yield f"| {link} | `{module}.{public}` | {guides(field.name)} |"
    yield ""


def server_options() -> Iterator[str]:
    """The rows of configuration.md, which is written from the tables of the servers."""
    yield from ("", "| option | section | guides |", "|---|---|---|")
    heading = ""
    for line in (site.DOCS / "configuration.md").read_text().splitlines():
        if found := re.match(r"#{2,3} (.+)", line):
            heading = found[1]
        elif found := re.match(r"\| `([\w.]+)`", line):
            yield f"| `{found[1]}` | [{heading}](configuration.md#{slug(heading)}) | {guides(found[1])} |"
        elif heading.startswith("Ignored"):
            for name in re.findall(r"`([\w.]+)`", line):
                yield f"| `{name}` | [{heading}](configuration.md#{slug(heading)}) | {guides(name)} |"
    yield ""


def command_rows() -> Iterator[str]:
    yield from ("", "| command | what it does | guides |", "|---|---|---|")
    for words, command in sorted(commands(typer.main.get_command(app), ("ariane",)), key=lambda one: one[0]):
        text = " ".join((command.help or "").split("\n\n")[0].split()).replace("|", "\\|")
        yield f"| `{words}` | {text} | {guides(words)} |"


def commands(found: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Each command that can be run, with its words."""
    is_group = hasattr(found, "list_commands")
    if words != ("ariane",) and (not is_group or found.invoke_without_command):
        yield " ".join(words), found
    if is_group:
        context = typer.Context(found)
        for name in found.list_commands(context):  # hidden ones are other spellings
            if not (one := found.get_command(context, name)).hidden:
                yield from commands(one, (*words, name))


def guides(name: str) -> str:
    """Links to the guides that show a name, those first that show it most."""
    whole = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    counts = [(len(whole.findall(code)), page, title) for page, title, code in guide_pages()]
    found = sorted((one for one in counts if one[0]), key=lambda one: -one[0])
    return ", ".join(f"[{title}]({page})" for _, page, title in found[:MOST_GUIDES])


@cache
def guide_pages() -> list[tuple[str, str, str]]:
    """Name, title and code of each guide."""
    return [one for path in sorted(site.DOCS.glob("*.md")) if path.name not in REFERENCE for one in [guide(path)]]


def guide(path: Path) -> tuple[str, str, str]:
    text = path.read_text()
    code = [
        *re.findall(r"```.*?```", text, re.DOTALL),
        *re.findall(r"`[^`\n]+`", text),
        *re.findall(r"^ {4}.*", text, re.M),
    ]
    title = re.search(r"^# (.+)", text, re.MULTILINE)
    assert title is not None, path
    return path.name, title[1], "\n".join(code)
