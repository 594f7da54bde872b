"""Admits requests: a session for everything but the login, our own origin for posts and websockets, safe headers."""

from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ariane.console.people.sessions import Sessions

COOKIE: Final = "ariane_console"
OPEN_PATHS: Final = frozenset({"/login", "/login.css", "/healthz", "/oidc/login", "/oidc/callback"})
ONE_TIME_PATHS: Final = frozenset({"/password", "/logout"})
READS: Final = frozenset({"GET", "HEAD"})
LARGEST_BODY: Final = 1 << 20

# The UI library compiles its templates in the browser, which needs 'unsafe-eval' and inline scripts. Nothing can be
# loaded from or sent to another host.
POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
PLAIN_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """Stands before the application."""

    def __init__(self, app: App, sessions: Sessions, *, tls: bool) -> None:
        self.app = app  # by this name the UI library finds the server that runs it
        self._sessions = sessions
        self._tls = tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            if self._refuse_websocket(scope):
                await receive()
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _refuse_websocket(self, scope: Scope) -> bool:
        found = self._sessions.get(token_of(scope))
        return not _is_own_origin(scope) or found is None or found[1].one_time

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        send = self._with_headers(path, send)
        if method not in READS:
            length = _header(scope, b"content-length")
            if not _is_own_origin(scope):
                await _answer(send, 403, b"the request comes from another site")
                return
            if length is None or not length.isdigit() or int(length) > LARGEST_BODY:
                await _answer(send, 413, b"a request needs a Content-Length, of a megabyte at most")
                return
        if path not in OPEN_PATHS:
            found = self._sessions.get(token_of(scope))
            if found is None:
                if method in READS and "text/html" in (_header(scope, b"accept") or ""):
                    query = scope.get("query_string", b"").decode("latin-1")
                    target = quote(path + (f"?{query}" if query else ""), safe="")
                    await _answer(send, 303, b"", ((b"location", f"/login?next={target}".encode()),))
                else:
                    await _answer(send, 401, b"log in first")
                return
            if found[1].one_time and path not in ONE_TIME_PATHS:
                await _answer(send, 303, b"", ((b"location", b"/password"),))
                return
        try:
            await self.app(scope, receive, send)
        except RuntimeError as error:
            if str(error) != "No response returned.":  # the browser went away, as Starlette puts it
                raise

    def _with_headers(self, path: str, send: Send) -> Send:
        policy = PLAIN_POLICY if path in OPEN_PATHS | ONE_TIME_PATHS else POLICY
        extra = [*HEADERS, (b"content-security-policy", policy.encode())]
        if self._tls:
            extra.append((b"strict-transport-security", b"max-age=31536000"))
        if not path.startswith("/_nicegui/"):  # assets have a version in their path
            extra.append((b"cache-control", b"no-store"))

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in extra}
                kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in names]
                message["headers"] = [*kept, *extra]
            await send(message)

        return sending


def token_of(scope: Scope) -> str | None:
    """The session token of a request."""
    try:
        morsel = SimpleCookie(_header(scope, b"cookie") or "").get(COOKIE)
    except CookieError:
        return None
    return morsel.value if morsel is not None else None


def _header(scope: Scope, wanted: bytes) -> str | None:
    for name, value in scope["headers"]:
        if name == wanted:
            text: str = value.decode("latin-1")
            return text
    return None


def _is_own_origin(scope: Scope) -> bool:
    origin, host = _header(scope, b"origin"), _header(scope, b"host")
    if origin is None or host is None:
        return False  # browsers send it with every post and websocket
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


async def _answer(send: Send, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    kind = ((b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": [*kind, *headers]})
    await send({"type": "http.response.body", "body": body})
