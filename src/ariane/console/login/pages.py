"""Login by password, the change of a password, logout."""

import asyncio
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from ariane.console.audit import AuditLog
from ariane.console.login.forms import STYLE, login_form, password_form
from ariane.console.login.provider import ProviderPages
from ariane.console.login.visit import address_of, is_own_path, language_of, note, session_cookie, target_of
from ariane.console.people.guard import COOKIE
from ariane.console.people.oidc import Oidc
from ariane.console.people.sessions import Guesses, Session, Sessions
from ariane.console.people.users import User, UserError, Users
from ariane.console.texts import text


class LoginPages:
    """The pages and forms; the guard lets only those with a session reach the password and the logout."""

    def __init__(
        self,
        users: Users,
        sessions: Sessions,
        guesses: Guesses,
        audit: AuditLog,
        oidc: Oidc | None,
        *,
        secure: bool,
    ) -> None:
        self._users = users
        self._sessions = sessions
        self._guesses = guesses
        self._audit = audit
        self._provider = None if oidc is None else ProviderPages(oidc, sessions, audit, secure=secure)
        self._secure = secure
        self._hashing = asyncio.Semaphore(2)  # a guess costs 16 MiB and a core

    def add_to(self, app: FastAPI) -> None:
        """Add the pages to the application."""
        app.get("/login.css")(self._style)
        app.get("/healthz")(self._health)
        app.get("/login")(self._login_page)
        app.post("/login")(self._log_in)
        app.get("/password")(self._password_page)
        app.post("/password")(self._change_password)
        app.post("/logout")(self._log_out)
        if self._provider is not None:
            self._provider.add_to(app)

    async def _style(self) -> Response:
        return Response(STYLE, media_type="text/css")

    async def _health(self) -> Response:
        return JSONResponse({"status": "UP"})

    def _show_login(self, request: Request, error: str = "", status: int = 200) -> Response:
        outside = self._provider is not None
        return HTMLResponse(login_form(language_of(request), target_of(request), error, outside=outside), status)

    async def _login_page(self, request: Request) -> Response:
        return self._show_login(request)

    async def _log_in(self, request: Request) -> Response:
        form = await _fields(request)
        name, password = form.get("user", ""), form.get("password", "")
        address, language = address_of(request), language_of(request)
        keys = (f"name {name[:64]}", f"address {address}")
        wait = self._guesses.wait(*keys)
        if wait > 0:
            response = self._show_login(request, _wait_text(language, wait), 429)
            response.headers["Retry-After"] = str(int(wait) + 1)
            return response
        self._guesses.failed(*keys)  # counted first, so that guesses at the same time count too
        async with self._hashing:
            user = await asyncio.to_thread(self._users.check, name, password)
        if user is None:
            note(self._audit, name[:64], request, "login", "refused")
            return self._show_login(request, text(language, "login.wrong"), 401)
        self._guesses.succeeded(*keys)
        note(self._audit, user.name, request, "login", "done")
        target = target_of(request)
        response = RedirectResponse(target if is_own_path(target) else "/", 303)
        return session_cookie(response, self._sessions.open(user, language=language), secure=self._secure)

    def _found(self, request: Request) -> tuple[Session, User]:
        found = self._sessions.get(request.cookies.get(COOKIE))
        assert found is not None  # the guard
        return found

    async def _password_page(self, request: Request) -> Response:
        return HTMLResponse(password_form(language_of(request), self._found(request)[0].csrf))

    async def _change_password(self, request: Request) -> Response:
        session, user = self._found(request)
        if session.outside is not None:
            return Response("this account has no password here", 403)
        form, address, language = await _fields(request), address_of(request), session.language

        def again(error: str, status: int) -> Response:
            return HTMLResponse(password_form(language_of(request), session.csrf, error), status)

        if form.get("csrf") != session.csrf:
            return again(text(language, "password.stale"), 403)
        keys = (f"name {user.name}", f"address {address}")
        wait = self._guesses.wait(*keys)
        if wait > 0:
            return again(_wait_text(language, wait), 429)
        self._guesses.failed(*keys)
        new = form.get("new", "")
        async with self._hashing:
            if await asyncio.to_thread(self._users.check, user.name, form.get("old", "")) is None:
                return again(text(language, "password.wrong"), 401)
            self._guesses.succeeded(*keys)
            if new != form.get("again"):
                return again(text(language, "password.differ"), 400)
            if new == form.get("old"):
                return again(text(language, "password.same"), 400)
            try:
                await asyncio.to_thread(self._users.set_password, user.name, new)
            except (UserError, OSError) as error:
                return again(str(error), 400)
        note(self._audit, user.name, request, "password", "done")
        changed = self._users.get(user.name)
        assert changed is not None
        token = self._sessions.open(changed, language=language, dark=session.dark)
        return session_cookie(RedirectResponse("/", 303), token, secure=self._secure)

    async def _log_out(self, request: Request) -> Response:
        session, _ = self._found(request)
        if (await _fields(request)).get("csrf") != session.csrf:
            return Response("the form is stale", 403)
        self._sessions.close(request.cookies[COOKIE])
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE, path="/")
        return response


async def _fields(request: Request) -> dict[str, str]:
    try:
        parsed = parse_qs((await request.body()).decode(errors="replace"), keep_blank_values=True, max_num_fields=10)
    except ValueError:  # more fields than any of our forms has
        return {}
    return {name: values[0] for name, values in parsed.items()}


def _wait_text(language: str, seconds: float) -> str:
    return text(language, "login.wait").format(seconds=int(seconds) + 1)
