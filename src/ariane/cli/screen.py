"""What a server says at start: one screen with what it is, where its files are and how it is reached."""

from rich.console import Console
from rich.table import Table

from ariane.version import describe

console = Console(highlight=False)


def introduce(what: str, facts: list[tuple[str, str]], warnings: list[str]) -> None:
    """Print name and version, the facts in two columns, and every warning."""
    console.print(f"[bold]{what}[/bold]  Ariane {describe()}")
    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        table.add_row(f"  {name}", value)
    console.print(table)
    for warning in warnings:
        console.print(f"[yellow]warning[/yellow]  {warning}")


def print_properties(printed: list[tuple[str, str]]) -> None:
    """`-p`: the configuration as `name=value` lines, for people and for scripts."""
    for name, value in printed:
        print(f"{name}={value}")
