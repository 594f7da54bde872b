"""A console in a process of its own over a cluster of the tests, with users of all roles."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from ariane.console.people.users import Users
from ariane.console.rights import Role

PASSWORD = "correct horse battery"


@dataclass
class Site:
    """A running console."""

    process: "subprocess.Popen[str]"
    url: str
    folder: Path
    namesrv: str
    sessions: dict[str, Any] = field(default_factory=dict)
    """Session cookies of browsers by user."""

    @contextmanager
    def log_in(self, name: str, password: str = PASSWORD) -> Iterator[httpx.Client]:
        headers = {"Origin": self.url.rstrip("/"), "Accept": "text/html"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=30) as client:
            answer = client.post("/login", data={"user": name, "password": password})
            assert answer.status_code == 303, answer.text
            yield client

    def changes(self) -> int:
        """Entries of the audit log but logins."""
        lines = (self.folder / "audit.jsonl").read_text().splitlines()
        return sum(json.loads(line)["what"] not in ("login", "password") for line in lines)

    def audited(self, what: str) -> dict[str, Any]:
        """The newest entry of the audit log about a change."""
        lines = reversed((self.folder / "audit.jsonl").read_text().splitlines())
        entry: dict[str, Any] = next(one for one in map(json.loads, lines) if one["what"] == what)
        return entry

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def write_users(folder: Path) -> None:
    """Users `viewer`, `operator` and `admin` whose password is known."""
    folder.mkdir(parents=True, exist_ok=True)
    users = Users(folder / "users.json")
    for role in Role:
        users.add(role.name.lower(), role)
        users.set_password(role.name.lower(), PASSWORD)


def start_site(folder: Path, namesrv: str | None, *words: str, env: dict[str, str] | None = None) -> Site:
    """Start `ariane console` and wait until it has said where it listens; without `namesrv` the words name clusters."""
    where = ["-n", namesrv] if namesrv is not None else []
    command = [sys.executable, "-m", "ariane", "console", *where, "--port", "0", "--folder", str(folder), *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TERM": "dumb", **(env or {})}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=folder.parent
    )
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if found := re.search(r"address\s+(https?://\S+)", line):
            return Site(process, found[1], folder, namesrv or "")
    raise AssertionError("the console did not start:\n" + "".join(said))
