"""The AsyncAPI document as one page for people: plain HTML, nothing loaded from elsewhere."""

import json
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c2330; }
h1, h2, h3 { line-height: 1.2; } h2 { border-bottom: 1px solid #d5dae3; margin-top: 2.5rem; padding-bottom: .3rem; }
table { border-collapse: collapse; } td, th { border: 1px solid #d5dae3; padding: .3rem .6rem; text-align: left; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; background: #f3f5f9; }
pre { padding: .8rem; overflow: auto; } .send, .receive { border-radius: .3rem; padding: .1rem .5rem; color: #fff; }
.send { background: #1f6f43; } .receive { background: #2a4d8f; }
@media (prefers-color-scheme: dark) { body { background: #14181f; color: #dde3ee; } code, pre { background: #1e2530; } }
"""


def to_page(document: dict[str, Any]) -> str:
    """The whole page."""
    info = document["info"]
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
        "<h2>Servers</h2><table><tr><th>name</th><th>address</th></tr>",
        *(
            f"<tr><td>{escape(name)}</td><td><code>{escape(server['description'])}</code></td></tr>"
            for name, server in document["servers"].items()
        ),
        "</table><h2>Operations</h2>",
        *(_operation(name, operation) for name, operation in document["operations"].items()),
        "<h2>Payloads</h2>",
        *(
            f'<h3 id="{escape(name)}">{escape(name)}</h3><pre>{escape(json.dumps(schema, indent=2))}</pre>'
            for name, schema in document["components"]["schemas"].items()
        ),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _operation(name: str, operation: dict[str, Any]) -> str:
    action = operation["action"]
    rows = [("topic", _last(operation["channel"]["$ref"]))]
    rows += [(key[2:].replace("-", " "), str(value)) for key, value in operation.items() if key.startswith("x-")]
    payloads = ", ".join(
        f'<a href="#{escape(_last(each["$ref"]))}">{escape(_last(each["$ref"]))}</a>' for each in operation["messages"]
    )
    described = f"<p>{escape(operation['description'])}</p>" if "description" in operation else ""
    table = "".join(f"<tr><th>{escape(key)}</th><td><code>{escape(value)}</code></td></tr>" for key, value in rows)
    return (
        f'<h3><span class="{action}">{action}</span> {escape(name)}</h3>{described}'
        f"<table>{table}<tr><th>payload</th><td>{payloads}</td></tr></table>"
    )


def _last(reference: str) -> str:
    return reference.rsplit("/", 1)[1]
