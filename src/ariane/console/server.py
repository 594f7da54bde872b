"""Puts the console together and serves it until it is stopped. One console a process: the UI library is one, too."""

import asyncio
import logging
import os
import socket
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from nicegui import app as ui_app
from nicegui import ui

from ariane.console.audit import AuditLog
from ariane.console.changes import Changes
from ariane.console.cluster import Cluster
from ariane.console.config_file import read_config
from ariane.console.login import LoginPages, refusal_page
from ariane.console.options import ConsoleOptions
from ariane.console.pages.access import access_page
from ariane.console.pages.alarms import alarms_page
from ariane.console.pages.clients import producers_page, transactions_page
from ariane.console.pages.cluster import broker_page, cluster_page
from ariane.console.pages.dead_letters import dead_letters_page
from ariane.console.pages.delays import delays_page
from ariane.console.pages.frame import frame, unavailable
from ariane.console.pages.groups import group_page, groups_page
from ariane.console.pages.history import history_page
from ariane.console.pages.messages import message_page, messages_page
from ariane.console.pages.people import audit_page, users_page
from ariane.console.pages.topics import topic_page, topics_page
from ariane.console.pages.trace import trace_page
from ariane.console.pages.view import View, page_link
from ariane.console.people.guard import COOKIE, Guard
from ariane.console.people.oidc import Oidc
from ariane.console.people.sessions import Guesses, Sessions
from ariane.console.people.users import Users
from ariane.console.people.visitor import Visitor
from ariane.console.rights import Role, may_see
from ariane.console.schemas import Schemas
from ariane.console.watch.alarms import Alarms, RulesFile
from ariane.console.watch.history import History
from ariane.console.watch.notices import Notifier
from ariane.console.watch.sampler import Sampler
from ariane.env import Env, FileLock, LockHeld
from ariane.errors import ArianeError, ConfigError, ListenFailed

BUILDERS: Final[dict[str, Callable[[View], Awaitable[None]]]] = {
    "cluster": cluster_page,
    "broker": broker_page,
    "topics": topics_page,
    "topic": topic_page,
    "groups": groups_page,
    "group": group_page,
    "messages": messages_page,
    "message": message_page,
    "trace": trace_page,
    "dead-letters": dead_letters_page,
    "producers": producers_page,
    "transactions": transactions_page,
    "delays": delays_page,
    "history": history_page,
    "alarms": alarms_page,
    "access": access_page,
    "audit": audit_page,
    "users": users_page,
}
FIRST_USER: Final = "admin"
log = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """A web server that leaves signals to the program."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Console:
    """The parts of a console."""

    def __init__(self, options: ConsoleOptions, env: Env) -> None:
        self.options = options
        self._lock = _own(options.folder, env)
        self.users = Users(options.folder / "users.json")
        self.one_time_password: str | None = None
        """The password of the first administrator, when this start created it. It is shown once and stored nowhere."""
        if len(self.users) == 0:
            self.one_time_password = self.users.add(FIRST_USER, Role.ADMIN)
        self.sessions = Sessions(self.users, env.clock, options.session_hours)
        self.audit = AuditLog(options.folder / "audit.jsonl", env.clock)
        config = read_config(options.folder)
        self.schemas = Schemas(config)
        self.notifier = Notifier(config, env.clock)
        rules = RulesFile(options.folder / "alarms.json")
        self.changes = Changes(self.users, self.audit, options.folder, rules, self.notifier)
        self.clusters = {name: Cluster(name, client, env) for name, client in options.clusters.items()}
        self.history = History(options.folder / "history.sqlite", options.history_days)
        self.pages = frozenset(BUILDERS)
        self._clock = env.clock
        self.alarms = Alarms(options.folder / "alarms.sqlite", rules, env.clock)
        self._sampler = Sampler(
            list(self.clusters.values()), self.history, self.alarms, self.notifier, env.clock, options.sample_seconds
        )
        self._config = config
        self.port = options.port
        self._guesses = Guesses(env.clock)
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    def now(self) -> int:
        """The wall clock in milliseconds."""
        return self._clock.now_ms()

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        return replace(self.options, port=self.port).url

    def application(self) -> Guard:
        """The web application."""
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=self._lifespan)
        secure = self.options.secure_cookies
        oidc = None
        if self._config.oidc is not None:
            oidc = Oidc(self._config, self._config.oidc, self.url, self._clock)
        LoginPages(self.users, self.sessions, self._guesses, self.audit, oidc, secure=secure).add_to(app)

        @app.get("/")
        async def home() -> Response:
            return RedirectResponse(page_link(next(iter(self.clusters)), "cluster"), 303)

        ui.page("/c/{cluster}/{page}", response_timeout=30.0)(self._page)
        ui.run_with(app, title="Ariane", show_welcome_message=False, binding_refresh_interval=None, tailwind=True)
        return Guard(app, self.sessions, tls=secure)

    async def _page(self, request: Request, cluster: str, page: str) -> Response | None:
        token = request.cookies.get(COOKIE)
        found = self.sessions.get(token)
        if found is None or token is None:
            return RedirectResponse("/login", 303)
        session, user = found
        if page not in BUILDERS or cluster not in self.clusters:
            return HTMLResponse(refusal_page(session.language, "page.unknown"), 404)
        if not may_see(user.role, page):
            return HTMLResponse(refusal_page(session.language, "page.forbidden"), 403)
        address = request.client.host if request.client is not None else "?"
        view = View(
            self, Visitor(self.sessions, token, address), self.clusters[cluster], page, dict(request.query_params)
        )
        with frame(view) as content:
            try:
                await BUILDERS[page](view)
            except (ArianeError, ValueError, OSError, sqlite3.Error) as error:
                unavailable(view, content, error)
        return None

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        for cluster in self.clusters.values():
            await cluster.start()
        self._sampler.start()
        self.notifier.start()
        try:
            yield
        finally:
            await self._sampler.stop()
            await self.notifier.stop()
            for cluster in self.clusters.values():
                await cluster.stop()
            self.history.close()
            self.alarms.close()

    async def start(self) -> None:
        """Listen; ListenFailed when that is not possible."""
        options = self.options
        ui_app.on_exception(lambda error: log.error("a page failed", exc_info=error))
        family = socket.AF_INET6 if ":" in options.listen else socket.AF_INET
        try:
            listener = socket.create_server((options.listen, options.port), family=family)
        except OSError as error:
            raise ListenFailed(f"{options.listen}:{options.port}: {error}", options.port) from error
        self.port = int(listener.getsockname()[1])
        config = uvicorn.Config(
            self.application(),
            host=options.listen,
            port=options.port,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ssl_certfile=options.tls_cert,
            ssl_keyfile=options.tls_key,
            ws_max_size=1 << 20,
            limit_concurrency=500,
            timeout_graceful_shutdown=2,
        )
        self._server = _Server(config)
        self._serving = asyncio.ensure_future(self._server.serve([listener]))
        while not self._server.started:
            if self._serving.done():
                await self._serving
                raise ArianeError("the console's web server did not start: see the log")
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Stop serving."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._server = None
        self._lock.release()


def _own(folder: Path, env: Env) -> FileLock:
    """Make the folder, for this process alone: two consoles would overwrite each other's users and alarms."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return env.files.lock(folder / "lock", f"console {os.getpid()}")
    except LockHeld as error:
        raise ConfigError(f"{folder} is used by another console ({error.holder}): give another --folder") from None
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}") from None
