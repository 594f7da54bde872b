"""`ariane` and its commands, put together."""

from typing import Annotated

import typer

from ariane.cli import messages, pipeline, servers, store
from ariane.cli.screen import console
from ariane.version import describe

app = typer.Typer(
    help="Apache RocketMQ 4.9 in Python: run servers, send and read messages, look into stores.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"ariane {describe()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print it")] = False,
) -> None: ...


app.command()(servers.up)
app.command()(servers.namesrv)
app.command()(servers.broker)
app.command()(messages.send)
app.command()(messages.tail)
app.add_typer(store.app, name="store")
app.add_typer(pipeline.app, name="pipeline")
