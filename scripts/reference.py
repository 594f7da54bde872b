"""`python -m scripts.reference`: writes docs/configuration.md, docs/errors.md and docs/requests.md from the code.

What the code does not say is in scripts/texts: the heads of the pages, a sentence for each option, and what to do about
each error and response code. A text that is missing, or that belongs to nothing, is an error here, so that no option
and no code can be left out.
"""

import ast
import contextlib
import importlib
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import ariane
from ariane.broker.config.table import BROKER_TABLE
from ariane.broker.handlers import request_table
from ariane.client.connect.server_requests import ServerRequests
from ariane.errors import ArianeError
from ariane.extras import MissingExtra
from ariane.filterserver.config import FILTER_SERVER_TABLE
from ariane.namesrv.config import NAMESRV_TABLE
from ariane.namesrv.handlers import Handlers
from ariane.protocol.codes import OWN_REQUESTS, RequestCode, ResponseCode
from ariane.settings import Host, Option, OptionTable
from ariane.settings.options import java_text

DOCS = Path(__file__).parents[1] / "docs"
TEXTS = Path(__file__).parent / "texts"
INTERNAL = ("ariane.broker", "ariane.cli", "ariane.console", "ariane.ha", "ariane.raft")
"""Packages whose errors never reach a user's code."""
RAISED_BY_USERS = (
    "ariane.app.listen.context.Retry",
    "ariane.app.listen.context.DeadLetter",
    "ariane.guarantee.idempotence.Rejected",
)
EXAMPLE_HOST = Host(
    home="~", rocketmq_home=None, namesrv_addr=None, address="the machine's address", host_name="the host name"
)
UNITS = (
    (r"Mill(is|s)$|Mills|Interval$|LiveTime$|ElectionTimeout$", "ms"),
    (r"Sec(onds)?$", "s"),
    (r"Bytes|FileSize|BufSize|WaterMark|FrameMaxLength|frameMaxLength|maxMessageSize|FallbehindMax|BatchSize", "bytes"),
    (r"consumerFallbehindThreshold|ByteInSecond", "bytes"),
)


def texts(name: str) -> dict[str, Any]:
    return tomllib.loads((TEXTS / f"{name}.toml").read_text())


def head(page: str) -> str:
    return (TEXTS / f"{page}.md").read_text()


def pages() -> dict[str, str]:
    """The generated pages by file name."""
    return {"configuration.md": configuration(), "errors.md": errors(), "requests.md": requests()}


# Configuration.


def configuration() -> str:
    groups = texts("options")
    meanings = {name: text for rows in ({**groups["broker"], **groups["both"]}).values() for name, text in rows.items()}
    alone = groups["filterserver"]["Filter server"]
    shared = {o.name: meanings[o.name] for o in FILTER_SERVER_TABLE if o.used and o.name not in alone}
    broker, namesrv = {**groups["broker"], **groups["both"]}, {**groups["namesrv"], **groups["both"]}
    return head("configuration") + "\n".join(
        [
            "## Broker",
            "",
            *sections(broker, BROKER_TABLE, "broker"),
            *left_out(BROKER_TABLE, "brokers"),
            "## Name server",
            "",
            *sections(namesrv, NAMESRV_TABLE, "name server"),
            *left_out(NAMESRV_TABLE, "name servers"),
            "## Filter server",
            "",
            *sections({**groups["filterserver"], "Shared": shared}, FILTER_SERVER_TABLE, "filter server"),
        ]
    )


def sections(groups: dict[str, dict[str, str]], table: OptionTable, owner: str) -> Iterator[str]:
    """A table for each group of options that the server reads."""
    known = {option.name: option for option in table if option.used}
    described = {name for rows in groups.values() for name in rows}
    if described != set(known):
        raise SystemExit(f"scripts/texts/options.toml and the {owner}'s options differ: {described ^ set(known)}")
    for title, rows in groups.items():
        suffix = "" if owner == "broker" else f" ({owner})"
        yield from (f"### {title}{suffix}", "", "| option | default | meaning |", "|---|---|---|")
        yield from (option_row(known[name], meaning) for name, meaning in rows.items())
        yield ""


def option_row(option: Option, meaning: str) -> str:
    marks = "".join(f" *{mark}*" for mark, holds in (("own", option.own), ("live", option.live)) if holds)
    return f"| `{option.name}`{marks} | {default_text(option)} | {meaning}{range_text(option)} |"


def default_text(option: Option) -> str:
    value = option.default_for(EXAMPLE_HOST)
    if value is None or value == "":
        return "none"
    unit = unit_of(option)
    text = java_text(value)
    shown = f"`{text}`" if not callable(option.default) or "/" in text else text
    return f"{shown} {unit}".strip()


def unit_of(option: Option) -> str:
    if option.unit:
        return {"percent": "%", "seconds": "s", "hours": "hours"}.get(option.unit, option.unit)
    if option.kind is not int:
        return ""
    return next((unit for pattern, unit in UNITS if re.search(pattern, option.name)), "")


def range_text(option: Option) -> str:
    if option.choices or option.kind in (bool, str):
        return ""
    low = f"{option.low:g}" if option.low else ""
    high = f"{option.high:.0f}" if option.high < 2**31 - 1 and option.high != 65535 else ""
    if low and high:
        return f" {low} to {high}."
    return f" At most {high}." if high else ""


def left_out(table: OptionTable, owner: str) -> Iterator[str]:
    refused = [option for option in table if option.absent is not None and not option.used]
    ignored = [option.name for option in table if not option.used and option.absent is None]
    yield from (f"### Refused by {owner}", "", "These switch on a feature that is not there, and refuse the start:", "")
    yield from ("| option | the start says |", "|---|---|")
    yield from (f"| `{option.name}` | {refusal(option)} |" for option in refused)
    yield from ("", f"### Ignored by {owner}", "")
    yield "These have no meaning here (sizes of Java's thread pools and the like). Any value is accepted, and the log"
    yield "names them at start:"
    yield from ("", ", ".join(f"`{name}`" for name in ignored) + ".", "")


def refusal(option: Option) -> str:
    assert option.absent is not None
    value = {bool: True, int: 1, str: "a"}[option.kind]  # type: ignore[index]
    return str(option.absent(value))


# Errors.


def errors() -> str:
    advice = texts("errors")
    classes = {kind.__name__: kind for kind in public_errors()}
    check("errors.toml", set(advice), set(classes))
    codes = texts("responses")
    check("responses.toml", set(codes), {code.name for code in ResponseCode})
    lines = [
        "| error | meaning | what to do |",
        "|---|---|---|",
    ]
    for name in advice:
        lines.append(f"| {error_title(classes[name])} | {summary(docstring(classes[name]))} | {advice[name]} |")
    lines += [
        "",
        "## Response codes",
        "",
        "The number in a response. `ResponseError.code` has it, `mqadmin` prints it as `CODE:`.",
        "",
        "| code | meaning | what to do |",
        "|---|---|---|",
    ]
    for code in ResponseCode:
        text = codes[code.name]
        lines.append(f"| {int(code)} `{code.name}` | {text['means']} | {text['do']} |")
    return head("errors") + "\n".join(
        [
            *lines,
            "",
            "Of the sends, `FLUSH_DISK_TIMEOUT`, `SLAVE_NOT_AVAILABLE` and `FLUSH_SLAVE_TIMEOUT` are statuses of",
            "`SendResult`: the message is stored and will be delivered. Which codes a producer retries is in",
            "[sending](send.md#ways-to-send).",
            "",
        ]
    )


def public_errors() -> list[type[BaseException]]:
    """Errors that reach a user's code: all of Ariane's but those of internal packages, and those that users raise."""
    for module in pkgutil.walk_packages(ariane.__path__, "ariane."):
        if not module.name.startswith((*INTERNAL, "ariane.__main__", "ariane.spark", "ariane.guarantee.migrations")):
            with contextlib.suppress(MissingExtra):
                importlib.import_module(module.name)
    found: dict[str, type[BaseException]] = {}
    waiting: list[type[BaseException]] = [ArianeError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("ariane") and not kind.__module__.startswith(INTERNAL):
            found.setdefault(kind.__name__, kind)
    for path in RAISED_BY_USERS:
        module, _, name = path.rpartition(".")
        found[name] = getattr(importlib.import_module(module), name)
    return list(found.values())


def error_title(kind: type[BaseException]) -> str:
    bases = [base for base in kind.__bases__ if base not in (Exception, BaseException)]
    also = f" < {', '.join(f'`{base.__name__}`' for base in bases)}" if bases else ""
    return f"`{kind.__name__}`{also}"


def check(file: str, texts: set[str], known: set[str]) -> None:
    if texts != known:
        raise SystemExit(f"scripts/texts/{file} and the code differ: {sorted(texts ^ known)}")


# Request codes.


def requests() -> str:
    rows = dict(request_rows())
    own = dict(sorted((code, name) for code, name in OWN_REQUESTS.items()))
    names = {**{int(code): code.name for code in RequestCode}, **own}
    lines = [
        "| code | answered by | what it does |",
        "|---|---|---|",
    ]
    for code, name in sorted(names.items()):
        who, what = rows.get(name, ("none", "Not there: the answer is REQUEST_CODE_NOT_SUPPORTED."))
        lines.append(f"| {code} `{name}` | {who} | {what} |")
    return head("requests") + "\n".join([*lines, ""])


def request_rows() -> Iterator[tuple[str, tuple[str, str]]]:
    """The name of each request that is answered, with the server and the first sentence of its handler."""
    parts = inspect.get_annotations(request_table)
    table = re.findall(r"(\w+): (\w+)\.(\w+),$", inspect.getsource(request_table), re.MULTILINE)
    found: dict[str, list[tuple[str, str]]] = {}
    for name, part, method in table:
        found.setdefault(name, []).append(("broker", summary(docstring(parts[part], method))))
    for who, kind in (("name server", Handlers), ("client", ServerRequests)):
        for name, method in re.findall(r"RequestCode\.(\w+): self\.(\w+)", inspect.getsource(kind)):
            found.setdefault(name, []).append((who, summary(docstring(kind, method))))
    more = texts("requests")
    check("requests.toml", set(more), {name for name, answers in found.items() if not answers[0][1]})
    for name, answers in found.items():
        yield name, (", ".join(who for who, _ in answers), answers[0][1] or more[name])


def docstring(kind: type, method: str = "") -> str:
    """The docstring of a class or of one of its methods, from the source: compiled ones have none."""
    for owner in kind.__mro__ if method else (kind,):
        if not owner.__module__.startswith("ariane."):
            continue
        for node in ast.walk(source_of(owner.__module__)):
            if isinstance(node, ast.ClassDef) and node.name == owner.__name__:
                if not method:
                    return ast.get_docstring(node) or ""
                for each in node.body:
                    if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name == method:
                        return ast.get_docstring(each) or ""
    return ""


@cache
def source_of(module: str) -> ast.Module:
    path = Path(*ariane.__path__).parent.joinpath(*module.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())


def summary(text: str) -> str:
    """The first paragraph of a docstring, without the name of the request that some begin with."""
    text = " ".join(text.split("\n\n")[0].split())
    text = re.sub(r"^[A-Z_0-9]+(?:, [A-Z_0-9]+)*: ", "", text)
    return (text[:1].upper() + text[1:]).replace("|", "\\|")


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
