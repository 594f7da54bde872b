"""`ariane cluster up|status|kill|stop|restart|down`: a cluster of processes in a folder of this machine."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ariane.cli.local_cluster.layout import LayoutName, Member, members_of
from ariane.cli.local_cluster.members import LOOK, STOP, left_behind
from ariane.cli.local_cluster.supervisor import SOCKET, Supervisor
from ariane.cli.logs import LogLevel
from ariane.cli.operate.cluster import cluster
from ariane.cli.operate.output import print_json, print_table
from ariane.cli.operate.session import CONTEXT, Json, Namesrv, Profile, Watch
from ariane.cli.screen import console
from ariane.cli.serve import run
from ariane.env import Env, LockHeld
from ariane.errors import ArianeError, ConfigError

DEFAULT: Final = Path("cluster")
LOCK: Final = "lock"
MADE: Final = "cluster.json"
"""What the cluster of a folder was made with."""
NAMESRV_PORT: Final = 9876
BROKER_PORT: Final = 10911
SOCKET_PATH_MAX: Final = 100  # bytes; the kernels allow 104 to 108
PATIENCE: Final = 600.0  # seconds; a restart of all members waits for each
Folder = Annotated[Path, typer.Option("--folder", help="folder of the cluster: stores, configuration, logs")]
Which = Annotated[str, typer.Argument(help="a member, as `ariane cluster status` lists them")]


app = typer.Typer(add_completion=False, invoke_without_command=True, context_settings=CONTEXT)


class NotRunning(ArianeError):
    """No supervisor answers in the folder; the text says what to do."""


@app.callback()
def show(
    ctx: typer.Context, as_json: Json = False, watch: Watch = None, namesrv: Namesrv = None, profile: Profile = None
) -> None:
    """Show clusters and brokers: roles, versions, rates, disks. Its commands run a cluster on this machine."""
    if ctx.invoked_subcommand is None:
        cluster(as_json, watch, namesrv, profile)


@app.command()
def up(
    layout: Annotated[LayoutName | None, typer.Option(help="which members; a folder that has some keeps them")] = None,
    folder: Folder = DEFAULT,
    namesrv_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help=f"port of the name server [default: {NAMESRV_PORT}]")
    ] = None,
    broker_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help=f"port of the first broker; the next ones in steps of 10 [default: {BROKER_PORT}]",
        ),
    ] = None,
) -> None:
    """Start a layout as processes of this machine, for trying and for tests; stay until Ctrl-C."""
    folder = folder.resolve()
    if len(os.fsencode(folder / SOCKET)) > SOCKET_PATH_MAX:
        raise ConfigError(f"--folder {folder}: the path is too long for a socket; choose a shorter one")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = Env().files.lock(folder / LOCK, f"lock held by ariane cluster up, process {os.getpid()}")
    except LockHeld:
        raise ConfigError(f"a cluster runs in {folder}; stop it with `ariane cluster down --folder {folder}`") from None
    try:
        if left_behind(folder):
            raise ConfigError(
                f"members run in {folder} without their supervisor; end them: `ariane cluster down --folder {folder}`"
            )
        wanted = {"layout": layout, "namesrv_port": namesrv_port, "broker_port": broker_port}
        continued = (folder / MADE).exists()
        made = _continued(folder, wanted) if continued else _new(folder, wanted)
        members = members_of(LayoutName(made["layout"]), folder, made["namesrv_port"], made["broker_port"])
        if not continued:
            _check_ports(members)
            (folder / MADE).write_text(json.dumps(made) + "\n")
        console.print(f"[bold]{made['layout']}[/bold] in {folder}; name server 127.0.0.1:{made['namesrv_port']}")

        async def supervise() -> None:
            await Supervisor(members, folder).run()

        run(supervise(), LogLevel.WARNING)
    finally:
        lock.release()


def _continued(folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """What the folder was made with; ConfigError when the command asks for something else."""
    made: dict[str, Any] = json.loads((folder / MADE).read_text())
    for name, value in wanted.items():
        if value is not None and value != made[name]:
            what = name.replace("_", " ")
            raise ConfigError(f"{folder} holds a cluster of {what} {made[name]}; choose another --folder")
    return made


def _new(folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """What a new cluster is made with: what the command asks for, and defaults."""
    if wanted["layout"] is None:
        raise ConfigError(f"say which layout: --layout {'|'.join(LayoutName)}")
    if any(path.name != LOCK for path in folder.iterdir()):
        raise ConfigError(f"{folder} is not empty and holds no cluster; choose another --folder")
    return {
        **wanted,
        "namesrv_port": wanted["namesrv_port"] or NAMESRV_PORT,
        "broker_port": wanted["broker_port"] or BROKER_PORT,
    }


def _check_ports(members: list[Member]) -> None:
    """ConfigError when the members cannot listen on all of their ports."""
    owners: dict[int, str] = {}
    for member in members:
        for port in member.ports:
            if not 0 < port < 65536:
                raise ConfigError(f"{member.name} needs port {port}, which is none; choose another --broker-port")
            if port in owners or not _is_free(port):
                owner = owners.get(port, "another program")
                raise ConfigError(
                    f"port {port}, which {member.name} needs, is taken by {owner}; "
                    "choose others with --namesrv-port and --broker-port"
                )
            owners[port] = member.name


def _is_free(port: int) -> bool:
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that were closed take no port
        try:
            line.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@app.command()
def status(folder: Folder = DEFAULT, as_json: Json = False) -> None:
    """Show the members that `ariane cluster up` started: role, address, state, process."""
    rows = _ask(folder, "status")
    if as_json:
        print_json(rows)
        return
    head = ["member", "role", "address", "state", "pid", "exit_code", "log"]
    print_table(head, [[row[name] for name in head] for row in rows], "no members")


@app.command()
def kill(member: Which, folder: Folder = DEFAULT) -> None:
    """Kill a member at once (SIGKILL), as a crash would; it stays down until it is restarted."""
    console.print(_ask(folder, "kill", member))


@app.command()
def stop(member: Which, folder: Folder = DEFAULT) -> None:
    """Stop a member cleanly (SIGTERM); it stays down until it is restarted."""
    console.print(_ask(folder, "stop", member))


@app.command()
def restart(
    member: Annotated[str | None, typer.Argument(help="a member; all, one after the other, without it")] = None,
    folder: Folder = DEFAULT,
    python: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="the Python of another installation: to try another version"),
    ] = None,
) -> None:
    """Stop a member cleanly if it runs, start it, and wait until it is ready."""
    console.print(_ask(folder, "restart", member, python=None if python is None else str(python.absolute())))


@app.command()
def down(folder: Folder = DEFAULT) -> None:
    """Stop all members and their supervisor; also members whose supervisor was killed. The stores stay."""
    folder = folder.resolve()
    try:
        _ask(folder, "down")
    except NotRunning:
        left = left_behind(folder)
        if not left and not (folder / SOCKET).exists():
            raise
        for pid in left:
            _end(pid, folder)
        (folder / SOCKET).unlink(missing_ok=True)
        console.print(f"The supervisor was gone; {len(left)} members that it left are stopped.")
        return
    _await(lambda: not (folder / SOCKET).exists())
    console.print("Stopped.")


def _ask(folder: Path, command: str, member: str | None = None, **more: str | None) -> Any:
    """Send a request to the supervisor; its answer."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE)
        try:
            line.connect(str(folder.resolve() / SOCKET))
            line.sendall(json.dumps({"command": command, "member": member, **more}).encode() + b"\n")
            text = line.makefile("rb").readline()
        except OSError as error:
            text = b""
            reason = f" ({error})"
        else:
            reason = ""
    if not text:
        raise NotRunning(f"no cluster runs in {folder}{reason}; start one: `ariane cluster up --folder {folder}`")
    answer = json.loads(text)
    if "error" in answer:
        raise ConfigError(answer["error"])
    return answer["done"]


def _end(pid: int, folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # a stopped process handles SIGTERM only when it goes on
        except ProcessLookupError:
            return
        if _await(lambda: pid not in left_behind(folder)):
            return


def _await(done: Callable[[], bool]) -> bool:
    """Look until it is so, as long as a member gets to stop."""
    clock = Env().clock
    deadline = clock.monotonic() + 2 * STOP
    while not done():
        if clock.monotonic() > deadline:
            return False
        time.sleep(LOOK)
    return True
