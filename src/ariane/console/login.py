"""The pages before a session: login, the change of a password, logout. Plain HTML without a websocket."""

import asyncio
from collections.abc import Callable
from html import escape
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from ariane.console.audit import AuditLog
from ariane.console.guard import COOKIE
from ariane.console.oidc import Oidc, OidcRefused
from ariane.console.sessions import Guesses, Sessions
from ariane.console.texts import preferred, text
from ariane.console.users import UserError, Users

OIDC_COOKIE = "ariane_console_oidc"
STYLE = """
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


def _page(
    language: str, title: str, lead: str, fields: str, error: str, action: str, button: str, more: str = ""
) -> str:
    problem = f'<p class="error" role="alert">{escape(error)}</p>' if error else ""
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)} · Ariane</title><link rel="stylesheet" href="/login.css"></head><body><main>'
        f'<h1>{escape(title)}</h1><p>{escape(lead)}</p>{problem}<form method="post" action="{escape(action)}">{fields}'
        f"<button>{escape(button)}</button></form>{more}</main></body></html>"
    )


def _field(label: str, name: str, kind: str, complete: str) -> str:
    return (
        f'<label>{escape(label)}<input name="{name}" type="{kind}" autocomplete="{complete}" required '
        'maxlength="256"></label>'
    )


async def _form(request: Request) -> dict[str, str]:
    parsed = parse_qs((await request.body()).decode(errors="replace"), keep_blank_values=True, max_num_fields=10)
    return {name: values[0] for name, values in parsed.items()}


def is_own_path(target: str) -> bool:
    """Whether a target after the login stays on this site.

    >>> is_own_path("/c/main/topics"), is_own_path("//elsewhere"), is_own_path("/\\\\elsewhere")
    (True, False, False)
    """
    return target.startswith("/") and not target.startswith("//") and "\\" not in target and target.isprintable()


def add_login(
    app: FastAPI,
    users: Users,
    sessions: Sessions,
    guesses: Guesses,
    audit: AuditLog,
    oidc: Oidc | None,
    *,
    secure: bool,
) -> None:
    """Add the pages to the application."""
    hashing = asyncio.Semaphore(2)  # a guess costs 16 MiB and a core

    def show_login(request: Request, error: str = "", status: int = 200) -> Response:
        language = preferred(request.headers.get("accept-language", ""))
        target = request.query_params.get("next", "/")
        fields = _field(text(language, "login.user"), "user", "text", "username")
        fields += _field(text(language, "login.password"), "password", "password", "current-password")
        lead, button = text(language, "login.lead"), text(language, "login.button")
        action = f"/login?next={quote(target, safe='')}"
        more = ""
        if oidc is not None:
            href = escape(f"/oidc/login?next={quote(target, safe='')}")
            more = f'<a class="outside" href="{href}">{escape(text(language, "login.oidc"))}</a>'
        return HTMLResponse(_page(language, "Ariane", lead, fields, error, action, button, more), status)

    def show_password(request: Request, csrf: str, error: str = "", status: int = 200) -> Response:
        language = preferred(request.headers.get("accept-language", ""))
        fields = f'<input type="hidden" name="csrf" value="{escape(csrf)}">'
        fields += _field(text(language, "password.old"), "old", "password", "current-password")
        fields += _field(text(language, "password.new"), "new", "password", "new-password")
        fields += _field(text(language, "password.again"), "again", "password", "new-password")
        title, lead = text(language, "password.title"), text(language, "password.lead")
        button = text(language, "password.button")
        return HTMLResponse(_page(language, title, lead, fields, error, "/password", button), status)

    def cookie(response: Response, token: str) -> Response:
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, path="/")
        return response

    @app.get("/login.css")
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")

    @app.get("/healthz")
    async def health() -> Response:
        return JSONResponse({"status": "UP"})

    @app.get("/login")
    async def login_page(request: Request) -> Response:
        return show_login(request)

    @app.post("/login")
    async def log_in(request: Request) -> Response:
        form = await _form(request)
        name, password = form.get("user", ""), form.get("password", "")
        address = request.client.host if request.client is not None else "?"
        language = preferred(request.headers.get("accept-language", ""))
        keys = (f"name {name[:64]}", f"address {address}")
        wait = guesses.wait(*keys)
        if wait > 0:
            response = show_login(request, text(language, "login.wait").format(seconds=int(wait) + 1), 429)
            response.headers["Retry-After"] = str(int(wait) + 1)
            return response
        guesses.failed(*keys)  # counted first, so that guesses at the same time count too
        async with hashing:
            user = await asyncio.to_thread(users.check, name, password)
        if user is None:
            audit.write(name[:64], address, "login", "refused")
            return show_login(request, text(language, "login.wrong"), 401)
        guesses.succeeded(*keys)
        audit.write(user.name, address, "login", "done")
        token = sessions.open(user, language=language)
        target = request.query_params.get("next", "/")
        return cookie(RedirectResponse(target if is_own_path(target) else "/", 303), token)

    if oidc is not None:
        add_oidc(app, oidc, show_login, cookie, sessions, audit, secure=secure)

    @app.get("/password")
    async def password_page(request: Request) -> Response:
        found = sessions.get(request.cookies.get(COOKIE))
        assert found is not None  # the guard
        return show_password(request, found[0].csrf)

    @app.post("/password")
    async def change_password(request: Request) -> Response:
        found = sessions.get(request.cookies.get(COOKIE))
        assert found is not None
        session, user = found
        if session.outside is not None:
            return Response("this account has no password here", 403)
        form = await _form(request)
        language = session.language
        address = request.client.host if request.client is not None else "?"
        if form.get("csrf") != session.csrf:
            return show_password(request, session.csrf, text(language, "password.stale"), 403)
        keys = (f"name {user.name}", f"address {address}")
        wait = guesses.wait(*keys)
        if wait > 0:
            return show_password(request, session.csrf, text(language, "login.wait").format(seconds=int(wait) + 1), 429)
        guesses.failed(*keys)
        new = form.get("new", "")
        async with hashing:
            good = await asyncio.to_thread(users.check, user.name, form.get("old", ""))
            if good is None:
                return show_password(request, session.csrf, text(language, "password.wrong"), 401)
            guesses.succeeded(*keys)
            if new != form.get("again"):
                return show_password(request, session.csrf, text(language, "password.differ"), 400)
            if new == form.get("old"):
                return show_password(request, session.csrf, text(language, "password.same"), 400)
            try:
                await asyncio.to_thread(users.set_password, user.name, new)
            except UserError as error:
                return show_password(request, session.csrf, str(error), 400)
        audit.write(user.name, address, "password", "done")
        changed = users.get(user.name)
        assert changed is not None
        return cookie(RedirectResponse("/", 303), sessions.open(changed, language=language, dark=session.dark))

    @app.post("/logout")
    async def log_out(request: Request) -> Response:
        found = sessions.get(request.cookies.get(COOKIE))
        assert found is not None
        if (await _form(request)).get("csrf") != found[0].csrf:
            return Response("the form is stale", 403)
        sessions.close(request.cookies[COOKIE])
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE, path="/")
        return response


def add_oidc(
    app: FastAPI,
    oidc: Oidc,
    show_login: Callable[[Request, str, int], Response],
    cookie: Callable[[Response, str], Response],
    sessions: Sessions,
    audit: AuditLog,
    *,
    secure: bool,
) -> None:
    """Add the login by a provider."""

    @app.get("/oidc/login")
    async def begin(request: Request) -> Response:
        target = request.query_params.get("next", "/")
        try:
            state, address = await oidc.begin(target if is_own_path(target) else "/")
        except OidcRefused as error:
            return show_login(request, str(error), 502)
        response = RedirectResponse(address, 303)
        response.set_cookie(OIDC_COOKIE, state, max_age=600, httponly=True, samesite="lax", secure=secure, path="/oidc")
        return response

    @app.get("/oidc/callback")
    async def finish(request: Request) -> Response:
        address = request.client.host if request.client is not None else "?"
        language = preferred(request.headers.get("accept-language", ""))
        asked = request.query_params
        try:
            if asked.get("error"):
                raise OidcRefused(f"the provider says: {asked['error'][:100]}")
            user, target = await oidc.finish(
                asked.get("state", ""), request.cookies.get(OIDC_COOKIE, ""), asked.get("code", "")
            )
        except OidcRefused as error:
            audit.write("oidc", address, "login", f"refused: {error}")
            return show_login(request, str(error), 403)
        audit.write(user.name, address, "login", "done")
        # The browser comes from another site, and would not send the strict cookie after a redirect: our own page
        # leads on.
        page = (
            f'<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>Ariane</title>'
            f'<meta http-equiv="refresh" content="0;url={escape(target)}"></head>'
            f'<body><a href="{escape(target)}">Ariane</a></body></html>'
        )
        response = cookie(HTMLResponse(page), sessions.open(user, language=language))
        response.delete_cookie(OIDC_COOKIE, path="/oidc")
        return response
