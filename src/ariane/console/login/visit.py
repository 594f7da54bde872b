"""What a request before a session says, and the cookie that begins one."""

import logging

from fastapi import Request
from fastapi.responses import Response

from ariane.console.audit import AuditFailed, AuditLog
from ariane.console.people.guard import COOKIE
from ariane.console.texts import preferred

log = logging.getLogger(__name__)


def address_of(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client is not None else "?"


def note(audit: AuditLog, user: str, request: Request, what: str, outcome: str) -> None:
    """Write a login to the audit log; without room for it, administrators can log in all the same."""
    try:
        audit.write(user, address_of(request), what, outcome)
    except AuditFailed as error:
        log.error("%s of %s (%s): %s", what, user, outcome, error)


def language_of(request: Request) -> str:
    """The language that the browser prefers."""
    return preferred(request.headers.get("accept-language", ""))


def target_of(request: Request) -> str:
    """Where the login leads, as the request says: see `is_own_path`."""
    return request.query_params.get("next", "/")


def is_own_path(target: str) -> bool:
    """Whether a target after the login stays on this site.

    >>> is_own_path("/c/main/topics"), is_own_path("//elsewhere"), is_own_path("/\\\\elsewhere")
    (True, False, False)
    """
    return target.startswith("/") and not target.startswith("//") and "\\" not in target and target.isprintable()


def session_cookie(response: Response, token: str, *, secure: bool) -> Response:
    """Add the cookie of a session to a response."""
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, path="/")
    return response
