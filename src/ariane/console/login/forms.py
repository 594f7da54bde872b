"""The HTML of the login and of the change of a password."""

from html import escape
from typing import Final
from urllib.parse import quote

from ariane.console.texts import text

STYLE: Final = """
:root { color-scheme: light dark; --ink: #0f172a; --soft: #475569; --paper: #fff; --back: #eef2f7; --accent: #0f766e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e2e8f0; --soft: #94a3b8; --paper: #1e293b; --back: #0f172a; --accent: #0f766e; }
}
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, "Noto Sans CJK SC", sans-serif; }
main { width: min(92vw, 24rem); background: var(--paper); padding: 2rem; border-radius: 1rem;
  box-shadow: 0 10px 40px rgb(15 23 42 / .15); }
h1 { margin: 0; font-size: 1.5rem; letter-spacing: -.02em; } p { margin: .25rem 0 1rem; color: var(--soft); }
label { display: block; margin-top: .9rem; font-size: .9rem; }
input { width: 100%; margin-top: .25rem; padding: .65rem .75rem; font: inherit; color: inherit; background: transparent;
  border: 1px solid #94a3b8; border-radius: .5rem; }
input:focus, button:focus-visible { outline: 3px solid #5eead4; outline-offset: 1px; }
button { width: 100%; margin-top: 1.4rem; padding: .7rem; font: inherit; font-weight: 600; color: #fff; border: 0;
  border-radius: .5rem; background: var(--accent); cursor: pointer; }
.outside { display: block; text-align: center; margin-top: .75rem;
  padding: .65rem; border: 1px solid #94a3b8; border-radius: .5rem; color: inherit;
  text-decoration: none; font-weight: 600; }
.error { color: #b91c1c; background: #fee2e2; padding: .5rem .75rem; border-radius: .5rem; }
"""


def login_form(language: str, target: str, error: str = "", *, outside: bool = False) -> str:
    """The login, which leads to `target`; with `outside`, it offers that of the provider, too."""
    following = quote(target, safe="")
    fields = _field(text(language, "login.user"), "user", "text", "username")
    fields += _field(text(language, "login.password"), "password", "password", "current-password")
    more = ""
    if outside:
        href = escape(f"/oidc/login?next={following}")
        more = f'<a class="outside" href="{href}">{escape(text(language, "login.oidc"))}</a>'
    form = _form(f"/login?next={following}", fields, text(language, "login.button")) + more
    return _page(language, "Ariane", text(language, "login.lead"), error, form)


def password_form(language: str, csrf: str, error: str = "") -> str:
    """The change of a password."""
    fields = f'<input type="hidden" name="csrf" value="{escape(csrf)}">'
    fields += _field(text(language, "password.old"), "old", "password", "current-password")
    fields += _field(text(language, "password.new"), "new", "password", "new-password")
    fields += _field(text(language, "password.again"), "again", "password", "new-password")
    form = _form("/password", fields, text(language, "password.button"))
    return _page(language, text(language, "password.title"), text(language, "password.lead"), error, form)


def refusal_page(language: str, reason: str) -> str:
    """Instead of a page that there is not, or not for this role: why, and a way back."""
    way = f'<a class="outside" href="/">{escape(text(language, "page.cluster"))}</a>'
    return _page(language, "Ariane", text(language, reason), "", way)


def onward_page(language: str, target: str) -> str:
    """A page of ours that leads on.

    A browser that comes from another site would not send the strict session cookie after a redirect.
    """
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>Ariane</title>'
        f'<meta http-equiv="refresh" content="0;url={escape(target)}"></head>'
        f'<body><a href="{escape(target)}">Ariane</a></body></html>'
    )


def _page(language: str, title: str, lead: str, error: str, form: str) -> str:
    problem = f'<p class="error" role="alert">{escape(error)}</p>' if error else ""
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)} · Ariane</title><link rel="stylesheet" href="/login.css"></head><body><main>'
        f"<h1>{escape(title)}</h1><p>{escape(lead)}</p>{problem}{form}</main></body></html>"
    )


def _form(action: str, fields: str, button: str) -> str:
    return f'<form method="post" action="{escape(action)}">{fields}<button>{escape(button)}</button></form>'


def _field(label: str, name: str, kind: str, complete: str) -> str:
    return (
        f'<label>{escape(label)}<input name="{name}" type="{kind}" autocomplete="{complete}" required '
        'maxlength="256"></label>'
    )
