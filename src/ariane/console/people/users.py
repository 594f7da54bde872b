"""Local accounts of the console: names, roles and hashed passwords in one file that only its owner can read."""

import base64
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from ariane.console.rights import Role
from ariane.errors import ArianeError, ConfigError

COST, BLOCK, LANES = 1 << 14, 8, 1  # scrypt: 16 MiB and some 50 ms a guess
MEMORY: Final = 64 << 20
SHORTEST: Final = 10  # characters of a password that a user chooses
LONGEST: Final = 256
log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")


class UserError(ArianeError):
    """An account cannot be created or changed so."""


@dataclass(frozen=True)
class User:
    """An account."""

    name: str
    role: Role
    password: str
    """`scrypt$cost$block$lanes$salt$hash`."""
    one_time: bool = False
    """The password was made by the console, and must be changed at the first login."""


def hash_password(password: str) -> str:
    """A salted hash of a password, with the parameters that made it."""
    salt = secrets.token_bytes(16)
    digest = hashlib.scrypt(password.encode(), salt=salt, n=COST, r=BLOCK, p=LANES, maxmem=MEMORY, dklen=32)
    return "$".join(
        (
            "scrypt",
            str(COST),
            str(BLOCK),
            str(LANES),
            base64.b64encode(salt).decode(),
            base64.b64encode(digest).decode(),
        )
    )


def is_password(password: str, stored: str) -> bool:
    """Whether a password has this hash."""
    try:
        kind, cost, block, lanes, salt, digest = stored.split("$")
        if kind != "scrypt":
            return False
        found = hashlib.scrypt(
            password.encode(),
            salt=base64.b64decode(salt),
            n=int(cost),
            r=int(block),
            p=int(lanes),
            maxmem=MEMORY,
            dklen=32,
        )
        return hmac.compare_digest(found, base64.b64decode(digest))
    except ValueError:
        return False


_NOBODY: Final = "scrypt$16384$8$1$AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


class Users:
    """The accounts of a console. The file is read again when another process changed it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._stamp_now()
        self._known_users = self._read()

    @property
    def _users(self) -> dict[str, User]:
        stamp = self._stamp_now()
        if stamp != self._stamp:
            try:
                self._known_users = self._read()
            except ConfigError as error:
                log.error("%s; the users of before stay", error)
            self._stamp = stamp
        return self._known_users

    def _stamp_now(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return ()
        return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode

    def _read(self) -> dict[str, User]:
        try:
            table = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ConfigError(f"{self._path}: not a file of users: {error}") from None
        mode = self._path.stat().st_mode & 0o777
        if os.name == "posix" and mode & 0o077:
            raise ConfigError(f"{self._path} can be read by others (mode {mode:o}): run chmod 600 on it")
        try:
            return {
                name: User(name, Role.of(one["role"]), one["password"], bool(one["one_time"]))
                for name, one in table["users"].items()
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ConfigError(f"{self._path}: not a file of users: {error!r}") from None

    def _write(self, users: dict[str, User]) -> None:
        table = {"users": {name: asdict(one) | {"role": one.role.name.lower()} for name, one in sorted(users.items())}}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(table, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        self._known_users, self._stamp = users, self._stamp_now()

    def __len__(self) -> int:
        return len(self._users)

    def get(self, name: str) -> User | None:
        """The account of a name."""
        return self._users.get(name)

    def all(self) -> list[User]:
        """All accounts, by name."""
        return sorted(self._users.values(), key=lambda user: user.name)

    def check(self, name: str, password: str) -> User | None:
        """The account with this name and password. Takes as long for a name that nobody has. Blocks for some 50 ms."""
        user = self._users.get(name)
        good = len(password) <= LONGEST and is_password(password, user.password if user is not None else _NOBODY)
        return user if good else None

    def add(self, name: str, role: Role) -> str:
        """Create an account; returns its one-time password."""
        if not _NAME.fullmatch(name):
            raise UserError("a user name has 1 to 64 letters, digits or . _ @ -")
        if name in self._users:
            raise UserError(f"there is a user {name} already")
        return self._give_one_time(User(name, role, ""))

    def reset(self, name: str) -> str:
        """Give an account a new one-time password, and return it."""
        return self._give_one_time(self._known(name))

    def _give_one_time(self, user: User) -> str:
        password = secrets.token_urlsafe(15)
        self._write(self._users | {user.name: replace(user, password=hash_password(password), one_time=True)})
        return password

    def set_password(self, name: str, password: str) -> None:
        """Set the password that a user chose."""
        if not SHORTEST <= len(password) <= LONGEST:
            raise UserError(f"a password has {SHORTEST} to {LONGEST} characters")
        if password.lower() == name.lower():
            raise UserError("a password is not the user's name")
        user = self._known(name)
        self._write(self._users | {name: replace(user, password=hash_password(password), one_time=False)})

    def set_role(self, name: str, role: Role) -> None:
        """Change the role of an account; the last administrator keeps it."""
        user = self._known(name)
        self._keep_an_admin(name, role)
        self._write(self._users | {name: replace(user, role=role)})

    def remove(self, name: str) -> None:
        """Delete an account; the last administrator stays."""
        self._known(name)
        self._keep_an_admin(name, None)
        self._write({other: user for other, user in self._users.items() if other != name})

    def _known(self, name: str) -> User:
        user = self._users.get(name)
        if user is None:
            raise UserError(f"there is no user {name}")
        return user

    def _keep_an_admin(self, name: str, role: Role | None) -> None:
        others = any(user.role is Role.ADMIN for user in self._users.values() if user.name != name)
        if role is not Role.ADMIN and not others:
            raise UserError(f"{name} is the only administrator: make another one first")
