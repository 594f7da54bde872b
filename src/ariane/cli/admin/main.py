"""`ariane admin NAME ...`: finds the subcommand, reads its options, runs it against a cluster."""

import difflib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from ariane.cli.admin.call import Call, UsageError, parse
from ariane.cli.admin.table import SUBCOMMANDS, Subcommand, find
from ariane.cli.connection import client_options
from ariane.cli.serve import run
from ariane.client.admin import Admin
from ariane.client.options import ClientOptions
from ariane.errors import ArianeError, ResponseError, RouteMissing
from ariane.protocol.codes import ResponseCode


def admin(words: Sequence[str]) -> None:
    """Run a subcommand with its options."""
    given = list(words)
    if not given or given[0] in ("-h", "--help"):
        print_overview()
        return
    if given[0] == "help":
        given = [*given[1:2], "-h"]
    command = find(given[0])
    if command is None:
        near = difflib.get_close_matches(given[0], [one.name for one in SUBCOMMANDS], 3, 0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `ariane admin` lists them all"
        sys.exit(f"ariane admin: there is no subcommand {given[0]}{hint}")
    try:
        values = parse(command.flags(), given[1:])
        if "h" in values:
            print_usage(command, sys.stdout)
            return
        missing = [flag for flag in command.flags() if flag.required and flag.short not in values]
        if missing:
            raise UsageError("needed: " + ", ".join(f"-{flag.short} {flag.long}" for flag in missing))
    except UsageError as error:
        print(f"ariane admin {command.name}: {error}", file=sys.stderr)
        print_usage(command, sys.stderr)
        sys.exit(1)
    options = client_options(values.get("n"), tools_file=tools_file())
    run(execute(command, values, options))


def print_overview() -> None:
    """List all subcommands."""
    print("The subcommands of mqadmin, with its flags:")
    for command in SUBCOMMANDS:
        print(f"   {command.name:<24} {command.help}")
    print("\n`ariane admin SUBCOMMAND -h` shows its options.")


def print_usage(command: Subcommand, file: Any) -> None:
    """Show the options of a subcommand."""
    print(f"usage: ariane admin {command.name} [options]: {command.help}", file=file)
    for flag in command.flags():
        value = f" <{flag.long}>" if flag.takes_value else ""
        print(f"  -{flag.short}, --{flag.long}{value}{'  (needed)' if flag.required else ''}", file=file)


async def execute(command: Subcommand, values: dict[str, str], options: ClientOptions) -> None:
    """Run a subcommand; an error that a server answered ends with its code, as mqadmin prints it."""
    function = getattr(import_module(f"ariane.cli.admin.{command.module}"), command.function)
    async with Admin(options=options) as client:
        call = Call(command.name, client, ";".join(options.addresses), values)
        try:
            await function(call)
        except ResponseError as error:
            _fail(command, error, error.code, error.remark)
        except RouteMissing as error:
            _fail(command, error, ResponseCode.TOPIC_NOT_EXIST, "No topic route info in name server for the topic")
        except ValueError as error:
            raise UsageError(f"{command.name}: {error}") from None


def _fail(command: Subcommand, error: ArianeError, code: int, remark: str) -> NoReturn:
    sys.stdout.flush()
    print(f"ariane admin {command.name}: {error}\nCODE: {int(code)}  DESC: {remark}", file=sys.stderr)
    sys.exit(1)


def tools_file() -> Path | None:
    """The file with the keys of mqadmin, where RocketMQ is installed."""
    home = os.environ.get("ROCKETMQ_HOME")
    path = Path(home) / "conf" / "tools.yml" if home else None
    return path if path is not None and path.is_file() else None
