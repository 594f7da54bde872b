"""`ariane` and its commands. A command is imported when it is run, so that none pays for the others' packages."""

import difflib
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from ariane.cli.screen import console
from ariane.extras import MissingExtra, extra
from ariane.version import describe


class Lazy(NamedTuple):
    """Where a command is, and the extra that brings what it needs."""

    module: str
    attribute: str
    extra: str


COMMANDS = {
    "up": Lazy("servers.commands", "up", "broker"),
    "namesrv": Lazy("servers.commands", "namesrv", "broker"),
    "broker": Lazy("servers.commands", "broker", "broker"),
    "filterserver": Lazy("servers.commands", "filterserver", "broker"),
    "send": Lazy("operate.message", "send", "broker"),  # short for `message send`
    "tail": Lazy("messages", "tail", "broker"),
    "topic": Lazy("operate.topic", "app", "broker"),
    "group": Lazy("operate.group", "app", "broker"),
    "message": Lazy("operate.message", "app", "broker"),
    "filter": Lazy("operate.filter", "app", "broker"),
    "offset": Lazy("operate.offset", "app", "broker"),
    "dlq": Lazy("operate.dlq", "app", "broker"),
    "transaction": Lazy("operate.transaction", "app", "broker"),
    "dledger": Lazy("dledger", "app", "broker"),
    "cluster": Lazy("local_cluster.control", "app", "broker"),
    "admin": Lazy("admin.command", "admin", "broker"),
    "store": Lazy("store", "app", "broker"),
    "console": Lazy("console", "app", "console"),
    "acl": Lazy("acl", "app", "broker"),
    "doctor": Lazy("doctor", "doctor", "broker"),
    "plan": Lazy("plan.command", "command", "broker"),
    "guarantee": Lazy("guarantee", "app", "guarantee"),
    "pipeline": Lazy("pipelines.command", "app", "spark"),
    "app": Lazy("application", "app", "app"),
}


RUNNING_BROKERS = Lazy("operate.broker", "app", "broker")
"""`ariane broker WORD`: commands about running brokers; other words are options of a broker to start."""

RAW: dict[str, dict[Any, Any]] = {  # commands that read their words themselves
    "admin": {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []},
}


class Commands(TyperGroup):
    """The commands of the table above."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        try:
            return _load(cmd_name, COMMANDS[cmd_name])
        except MissingExtra as missing:
            return _Unavailable(cmd_name, missing)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] == "broker" and len(args) > 1 and not args[1].startswith("-"):
            return "broker", _load("broker", RUNNING_BROKERS), args[1:]
        if args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, 3, 0.6)
            hint = f"Did you mean {' or '.join(near)}?" if near else "`ariane --help` lists the commands."
            ctx.fail(f"No such command '{args[0]}'. {hint}")
        return super().resolve_command(ctx, args)


def _load(name: str, lazy: Lazy) -> Any:
    with extra(lazy.extra, f"ariane {name}"):
        found = getattr(import_module(f"ariane.cli.{lazy.module}"), lazy.attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name, context_settings=RAW.get(name))(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    return command


class _Unavailable(TyperCommand):
    """A command whose extra is not installed: it is listed, and says what to install when it is run."""

    def __init__(self, name: str, missing: MissingExtra) -> None:
        super().__init__(name, help=f"Not installed: {missing}", add_help_option=False)
        self._missing = missing

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        raise self._missing


app = typer.Typer(
    cls=Commands,
    help="Apache RocketMQ 4.9 in Python: run servers, send and read messages, look into stores.",
    no_args_is_help=True,
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
