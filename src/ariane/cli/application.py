"""`ariane app run` and `ariane app docs`: applications made with `ariane.app`."""

import importlib
import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ariane.app import Ariane
from ariane.app.document.asyncapi import describe_application, to_json_text
from ariane.app.document.page import to_page
from ariane.app.observe.health import HealthServer
from ariane.app.observe.logs import log_to
from ariane.cli.logs import LogLevel
from ariane.cli.screen import console, introduce
from ariane.cli.serve import run as run_loop
from ariane.cli.serve import until_stopped
from ariane.cli.workers import Workers
from ariane.errors import ArianeError

app = typer.Typer(
    help="Run and document applications made with ariane.app.", no_args_is_help=True, add_completion=False
)

Target = Annotated[str, typer.Argument(help="where the application is: package.module:name")]


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


class DocsFormat(StrEnum):
    """What `ariane app docs` writes."""

    JSON = "json"
    HTML = "html"


@app.command()
def run(
    target: Target,
    workers: Annotated[int, typer.Option(help="processes to run it in", min=1)] = 1,
    reload: Annotated[bool, typer.Option("--reload", help="start again when a .py file below here changes")] = False,
    health_host: Annotated[str | None, typer.Option(help="address of /health, /ready, /metrics")] = None,
    health_port: Annotated[int | None, typer.Option(help="its port; worker n has port + n")] = None,
    log_level: Annotated[LogLevel, typer.Option(help="which events to show on the error output")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="how they look")] = LogFormat.TEXT,
) -> None:
    """Run an application until a signal stops it; handlers under way finish."""
    if workers > 1 or reload:
        loaded = None if reload else load(target)  # a program that changes is loaded by its workers alone
        first = health_port if loaded is None or health_port is not None else loaded.settings.health.port
        options = ["--log-level", log_level.value, "--log-format", log_format.value]
        options += ["--health-host", health_host] if health_host is not None else []

        def command(number: int) -> list[str]:
            port = [] if first is None else ["--health-port", str(first + number if first else 0)]
            return [sys.executable, "-m", "ariane", "app", "run", target, *options, *port]

        Workers("Worker", command, workers, watched=Path.cwd() if reload else None).run()
        return
    loaded = load(target)
    _set_up_logs(log_format)
    run_loop(_serve(loaded, health_host, health_port), log_level)


async def _serve(loaded: Ariane, host: str | None, port: int | None) -> None:
    wanted = loaded.settings.health
    health = HealthServer(loaded, host or wanted.host, wanted.port if port is None else port)
    facts = loaded.describe()
    if wanted.enabled:
        await health.start()
        facts.append(("health", f"http://{health.address}/health  /ready  /metrics"))
    try:
        introduce("Application", facts, [])
        async with loaded:
            console.print("Running; Ctrl-C stops it.")
            await until_stopped()
            console.print("Stopping ...")
    finally:
        await health.stop()
    console.print("Stopped; handlers have finished.")


@app.command()
def docs(
    target: Target,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="file to write")] = None,
    form: Annotated[DocsFormat | None, typer.Option("--format", help="json, or html by the file's suffix")] = None,
) -> None:
    """Write the application's AsyncAPI 3.0 document, as JSON or as a page."""
    document = describe_application(load(target))
    is_page = form is DocsFormat.HTML or (form is None and output is not None and output.suffix == ".html")
    text = to_page(document) if is_page else to_json_text(document)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
        console.print(f"written: {output}")


def load(target: str) -> Ariane:
    """The application that `package.module:name` names."""
    module_name, _, attribute = target.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise
        raise ArianeError(f"there is no module {module_name!r} here: name it as in package.module:app") from None
    found: Any = getattr(module, attribute or "app", None)
    if not isinstance(found, Ariane):
        names = [name for name, value in vars(module).items() if isinstance(value, Ariane)]
        hint = f"; it has {', '.join(names)}" if names else ": make one with app = Ariane()"
        raise ArianeError(f"{module_name} has no application {attribute or 'app'!r}{hint}")
    return found


def _set_up_logs(form: LogFormat) -> None:
    handler = logging.StreamHandler()
    log_to(handler, as_json=form is LogFormat.JSON)
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
