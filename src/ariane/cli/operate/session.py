"""Connecting, the options that all commands have, and the question before something is destroyed."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from ariane.cli.connection import client_options
from ariane.cli.operate.output import clear_screen
from ariane.cli.serve import run
from ariane.client.admin import Admin

TOO_MUCH = 3
"""The exit code when a figure is over the limit that was asked for."""

Json = Annotated[bool, typer.Option("--json", help="print JSON, for programs")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="show what would be done, and do nothing")]
Watch = Annotated[float | None, typer.Option("--watch", min=0.1, help="show it again each so many seconds")]
Namesrv = Annotated[
    str | None,
    typer.Option("-n", "--namesrv", help="name servers: host:port;host:port (NAMESRV_ADDR, else a profile's)"),
]
Profile = Annotated[str | None, typer.Option("--profile", help="a profile of ~/.config/ariane/profiles.toml")]

CONTEXT = {"help_option_names": ["-h", "--help"]}


def new_group(about: str) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(add_completion=False, help=about, no_args_is_help=True, context_settings=CONTEXT)


@dataclass(frozen=True)
class Session:
    """How a command reaches its cluster."""

    namesrv: str | None
    profile: str | None

    def run(self, work: Callable[[Admin], Awaitable[None]], *, watch: float | None = None) -> None:
        """Run with a connected admin; with `watch` again and again, until it is interrupted."""
        options = client_options(self.namesrv, self.profile)

        async def connected() -> None:
            async with Admin(options=options) as admin:
                await work(admin)
                while watch is not None:
                    await asyncio.sleep(watch)
                    clear_screen()
                    await work(admin)

        try:
            run(connected())
        except KeyboardInterrupt:
            sys.exit(130)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed; without a terminal only --yes will do."""
    if yes:
        return
    if not sys.stdin.isatty():
        sys.exit(f"ariane: {question} Nothing was done: give --yes to do it without a terminal to ask at.")
    typer.confirm(question, abort=True)
