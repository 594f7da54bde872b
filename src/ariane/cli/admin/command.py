"""`ariane admin` among the other commands: for its help, and for completion of its words."""

from typing import Annotated

import typer

from ariane.cli.admin.table import SUBCOMMANDS


def complete(incomplete: str) -> list[str]:
    """The subcommands that begin so."""
    return [one.name for one in SUBCOMMANDS if one.name.lower().startswith(incomplete.lower())]


def admin(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="SUBCOMMAND [OPTIONS]...", autocompletion=complete)
    ] = None,
) -> None:
    """Run a subcommand of mqadmin, with its name and flags: `ariane admin topicList -n 127.0.0.1:9876`."""
    from ariane.cli.admin.main import admin as run_subcommand  # completion does without a client

    run_subcommand(words or ())
