"""`uvx ariane up`: the command gets its extra by itself, because uvx installs the client alone."""

import sys

import pytest

from ariane import cli
from ariane.extras import MissingExtra
from ariane.version import VERSION


class Replaced(BaseException):
    """The process would be another program now."""


@pytest.fixture
def run_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise MissingExtra("the command line needs typer", "broker")

    def replace(path: str, words: list[str]) -> None:
        raise Replaced(path, *words)

    monkeypatch.setattr(cli, "extra", missing)
    monkeypatch.setattr("os.execv", replace)
    monkeypatch.setattr(sys, "argv", ["ariane", "up", "--store", "here"])
    monkeypatch.setenv("UV", "/bin/uv")
    monkeypatch.setattr(sys, "prefix", "/cache/uv/archive-v0/b0W5v")
    monkeypatch.setenv("ARIANE_RUN_BY_UVX", "")
    monkeypatch.delenv("ARIANE_RUN_BY_UVX")


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        (None, f"ariane[broker]=={VERSION}"),
        ('{"url": "file:///dist/ariane.whl"}', "ariane[broker] @ file:///dist/ariane.whl"),
    ],
)
@pytest.mark.usefixtures("run_without_the_extra")
def test_uvx_runs_the_command_with_its_extra(monkeypatch: pytest.MonkeyPatch, origin: str | None, wanted: str) -> None:
    monkeypatch.setattr(cli, "distribution", lambda name: type("One", (), {"read_text": lambda self, name: origin})())
    with pytest.raises(Replaced) as replaced:
        cli.main()
    assert replaced.value.args == (
        "/bin/uv",
        "/bin/uv",
        "tool",
        "run",
        "--from",
        wanted,
        "ariane",
        "up",
        "--store",
        "here",
    )


@pytest.mark.parametrize(
    ("name", "value"), [("UV", None), ("prefix", "/home/me/project/.venv"), ("ARIANE_RUN_BY_UVX", "1")]
)
@pytest.mark.usefixtures("run_without_the_extra")
def test_everybody_else_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str, value: str | None) -> None:
    if name == "prefix":
        monkeypatch.setattr(sys, name, value)
    elif value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match="needs typer"):
        cli.main()
