"""Login by an OpenID Connect provider."""

from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ariane.console.audit import AuditLog
from ariane.console.login.forms import login_form, onward_page
from ariane.console.login.visit import is_own_path, language_of, note, session_cookie, target_of
from ariane.console.people.oidc import Oidc, OidcRefused
from ariane.console.people.sessions import Sessions

STATE_COOKIE: Final = "ariane_console_oidc"


class ProviderPages:
    """Sends the browser to the provider, and opens a session when it is back."""

    def __init__(self, oidc: Oidc, sessions: Sessions, audit: AuditLog, *, secure: bool) -> None:
        self._oidc = oidc
        self._sessions = sessions
        self._audit = audit
        self._secure = secure

    def add_to(self, app: FastAPI) -> None:
        """Add the pages to the application."""
        app.get("/oidc/login")(self._begin)
        app.get("/oidc/callback")(self._finish)

    async def _begin(self, request: Request) -> Response:
        target = target_of(request)
        try:
            state, address = await self._oidc.begin(target if is_own_path(target) else "/")
        except OidcRefused as error:
            return _refused(request, error, 502)
        response = RedirectResponse(address, 303)
        response.set_cookie(
            STATE_COOKIE, state, max_age=600, httponly=True, samesite="lax", secure=self._secure, path="/oidc"
        )
        return response

    async def _finish(self, request: Request) -> Response:
        asked, state = request.query_params, request.cookies.get(STATE_COOKIE, "")
        try:
            if asked.get("error"):
                raise OidcRefused(f"the provider says: {asked['error'][:100]}")
            user, target = await self._oidc.finish(asked.get("state", ""), state, asked.get("code", ""))
        except OidcRefused as error:
            note(self._audit, "oidc", request, "login", f"refused: {error}")
            return _refused(request, error, 403)
        note(self._audit, user.name, request, "login", "done")
        language = language_of(request)
        token = self._sessions.open(user, language=language)
        response = session_cookie(HTMLResponse(onward_page(language, target)), token, secure=self._secure)
        response.delete_cookie(STATE_COOKIE, path="/oidc")
        return response


def _refused(request: Request, error: OidcRefused, status: int) -> Response:
    return HTMLResponse(login_form(language_of(request), target_of(request), str(error), outside=True), status)
