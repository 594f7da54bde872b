"""Every command on the pages exists, with its subcommand and its options."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from ariane.cli.admin.table import SUBCOMMANDS
from ariane.cli.app import app
from tests.docs.pages import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
TEXTS = sorted(ROOT.glob("scripts/texts/*.toml"))
SHOWN = re.compile(r"(?:^ {4,}(?:\$ )?|`|^)(?:\.venv/bin/)?ariane ([a-z][^`\n]*)", re.MULTILINE)


def shown(page: Path) -> list[str]:
    """The commands of a page, without what a shell would add to them."""
    commands = (re.split(r"  +#| \| | > |;|…|\.\.\.|&& ", command)[0] for command in SHOWN.findall(page.read_text()))
    return [command.strip() for command in commands]


@pytest.mark.parametrize("page", [*PAGES, *TEXTS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists(page: Path) -> None:
    for command in shown(page):
        try:
            words = shlex.split(command)
        except ValueError:  # prose that goes on after a quote
            continue
        if words[0] == "admin":
            names = {one.name for one in SUBCOMMANDS} | {one.alias for one in SUBCOMMANDS}
            assert len(words) == 1 or words[1] in names or not re.fullmatch(r"[a-z]\w+", words[1]), command
            continue
        found, rest = resolve(words)
        flags = {flag for parameter in found.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.partition("=")[0] for word in rest if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)}
        assert used <= flags | {"--help", "--version"}, command


def resolve(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words name, and the words after it; a group that runs by itself may have arguments."""
    found: Any = typer.main.get_command(app)
    rest = list(words)
    if words[0] == "broker" and len(words) > 1 and not words[1].startswith("-"):
        _, found, rest = found.resolve_command(typer.Context(found), rest)
    while hasattr(found, "get_command") and rest and not rest[0].startswith("-"):
        names = rest[0].split("|")
        inner = [found.get_command(typer.Context(found), name) for name in names]
        if None in inner:
            assert found.invoke_without_command or not re.fullmatch(r"[a-z]+", rest[0]), f"{words}: no {rest[0]}"
            break
        found = inner[0]
        rest.pop(0)
    return found, rest
