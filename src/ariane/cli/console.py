"""`ariane console`: see and change clusters in a browser; `ariane console user`: its users."""

import os
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from ariane.cli.connection import client_options, profiles_file
from ariane.cli.logs import LogLevel
from ariane.cli.screen import console as screen
from ariane.cli.screen import introduce
from ariane.cli.serve import run, running, until_stopped
from ariane.client.options import ClientOptions
from ariane.console.options import ConsoleOptions
from ariane.console.people.users import Users
from ariane.console.rights import Role
from ariane.console.server import FIRST_USER, Console
from ariane.env import Env
from ariane.errors import ConfigError

app = typer.Typer(add_completion=False, help="See and change clusters in a browser.", invoke_without_command=True)
user_app = typer.Typer(
    add_completion=False, help="Users of the console. A running console sees changes at once.", no_args_is_help=True
)
app.add_typer(user_app, name="user")


def default_folder() -> Path:
    """Where the console keeps its files."""
    return Path.home() / ".local" / "share" / "ariane" / "console"


Folder = Annotated[
    Path | None,
    typer.Option(help="users, audit log, history; default: ~/.local/share/ariane/console", file_okay=False),
]


@app.callback()
def console(
    context: typer.Context,
    namesrv: Annotated[str | None, typer.Option("-n", "--namesrv", help="name servers: host:port;host:port")] = None,
    profile: Annotated[
        list[str] | None, typer.Option("--profile", help="profile of a cluster; give it again for several")
    ] = None,
    listen: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port to listen on; 0 chooses a free one")] = 8082,
    folder: Folder = None,
    tls_cert: Annotated[Path | None, typer.Option(help="certificate chain, PEM", exists=True)] = None,
    tls_key: Annotated[Path | None, typer.Option(help="its key, PEM", exists=True)] = None,
    log_level: Annotated[LogLevel, typer.Option("--log-level", help="which events to log")] = LogLevel.WARNING,
) -> None:
    """See and change clusters in a browser, Ariane's and Apache's."""
    if context.invoked_subcommand is not None:
        return
    options = ConsoleOptions(
        _clusters(namesrv, profile or []), (folder or default_folder()).resolve(), listen, port, tls_cert, tls_key
    )
    run(_console(options), log_level)


def _clusters(namesrv: str | None, profiles: list[str]) -> dict[str, ClientOptions]:
    if profiles:
        if namesrv is not None and len(profiles) > 1:
            raise ConfigError("-n names one cluster: give it with one profile at most")
        return {name: client_options(namesrv, name) for name in profiles}
    if namesrv is None and not os.environ.get("NAMESRV_ADDR"):
        try:
            default = tomllib.loads(profiles_file().read_text("utf-8")).get("default")
        except (OSError, ValueError):
            default = None
        if isinstance(default, str):
            return {default: client_options(None, default)}
    return {"main": client_options(namesrv)}


async def _console(options: ConsoleOptions) -> None:
    server = Console(options, Env())
    async with running(server, options.port, "--port"):
        clusters = ", ".join(f"{name} ({';'.join(one.addresses)})" for name, one in options.clusters.items())
        facts = [("address", server.url), ("clusters", clusters), ("files", str(options.folder))]
        warnings: list[str] = []
        if not options.is_local and options.tls_cert is None:
            warnings.append("others can reach it, and passwords travel in clear: give --tls-cert and --tls-key")
        introduce("Console", facts, warnings)
        if server.one_time_password is not None:
            screen.print(f"\nFirst start: log in as [bold]{FIRST_USER}[/bold] with this password, which works once:")
            screen.print(f"  {server.one_time_password}\n", markup=False)
        await until_stopped()


Name = Annotated[str, typer.Argument(help="the user's name")]
RoleName = Annotated[str, typer.Option(help="viewer, operator or admin")]


def _users(folder: Path | None) -> Users:
    return Users((folder or default_folder()).resolve() / "users.json")


@user_app.command("list")
def list_users(folder: Folder = None) -> None:
    """List the users."""
    for user in _users(folder).all():
        print(f"{user.name}\t{user.role.name.lower()}")


@user_app.command("add")
def add_user(name: Name, role: RoleName = "viewer", folder: Folder = None) -> None:
    """Create a user; prints a password that works once."""
    print(_users(folder).add(name, _role(role)))


@user_app.command("reset")
def reset_user(name: Name, folder: Folder = None) -> None:
    """Give a user a new password that works once."""
    print(_users(folder).reset(name))


@user_app.command("remove")
def remove_user(name: Name, folder: Folder = None) -> None:
    """Delete a user."""
    _users(folder).remove(name)


def _role(name: str) -> Role:
    try:
        return Role.of(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
