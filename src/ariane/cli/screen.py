"""The start screen of a server: version, addresses, files, warnings."""

import os
import sys
from pathlib import Path

from rich.console import Console

from ariane.version import describe

console = Console(highlight=False, soft_wrap=True)


def introduce(what: str, facts: list[tuple[str, str]], warnings: list[str]) -> None:
    """Print name and version, the facts in two columns, and every warning."""
    console.print(f"[bold]{what}[/bold]  Ariane {describe()}")
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.print(f"  {name:{width}}  {value}")
    for warning in warnings:
        console.print(f"[yellow]warning[/yellow]  {warning}")


def this_command() -> str:
    """The command as the user can type it in the current folder."""
    program = Path(sys.argv[0])
    if program.name == "ariane" and program.is_absolute() and program.is_relative_to(Path.cwd()):
        return os.path.relpath(program)
    return "ariane"


def print_properties(printed: list[tuple[str, str]]) -> None:
    """`-p`: the configuration as `name=value` lines, for people and for scripts."""
    for name, value in printed:
        print(f"{name}={value}")
