"""The runbooks for certificates and keys: both are replaced while clients send and consume."""

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ariane import Message, Producer, TlsClient
from ariane.errors import ArianeError
from ariane.remoting.certificates import make_self_signed
from tests.cli.programs import program, run
from tests.peers import free_port, until
from tests.runbooks.load import PATIENCE, Load

pytestmark = pytest.mark.slow

OLD, NEW = ({"access_key": f"orders-{year}", "secret_key": f"secret-of-{year}"} for year in (2025, 2026))
RULES = f"""
accounts:
- accessKey: operator
  secretKey: secret-of-operator
  admin: true
- accessKey: {OLD["access_key"]}
  secretKey: {OLD["secret_key"]}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
"""


class Site:
    """A name server and a broker with TLS and access control; files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names, self.port = free_port(), free_port(-2, 1)
        self.trust = folder / "trust.pem"
        self.namesrv = f"127.0.0.1:{self.names}"
        self.old = self.make_pair()
        self.replace("trust.pem", self.old[1])
        (folder / "conf").mkdir()
        (folder / "conf" / "plain_acl.yml").write_text(RULES)
        tls = (
            "tls.test.mode.enable=false\n"
            f"tls.server.certPath={folder}/server.pem\ntls.server.keyPath={folder}/server.key\n"
        )
        (folder / "namesrv.conf").write_text(f"listenPort={self.names}\nkvConfigPath={folder}/kv.json\n{tls}")
        (folder / "broker.conf").write_text(
            f"brokerIP1=127.0.0.1\nlistenPort={self.port}\nnamesrvAddr={self.namesrv}\nstorePathRootDir={folder}/store\n"
            f"rocketmqHome={folder}\naclEnable=true\nmappedFileSizeCommitLog=1048576\nmaxIndexNum=1000\n"
            f"maxHashSlotNum=4000\ntls.server.mode=enforcing\n{tls}"
        )
        (folder / "profiles.toml").write_text(
            f'default = "site"\n[site]\nname_servers = "{self.namesrv}"\naccess_key = "operator"\n'
            f'secret_key = "secret-of-operator"\ntls = {{ trust_cert_path = "{self.trust}" }}\n'
        )

    def make_pair(self) -> tuple[bytes, bytes]:
        """Make a key and a certificate and put them in force, the key first."""
        key, certificate = make_self_signed("localhost")
        self.replace("server.key", key)
        self.replace("server.pem", certificate)
        return key, certificate

    def replace(self, name: str, content: bytes) -> None:
        (self.folder / f"{name}.new").write_bytes(content)
        os.replace(self.folder / f"{name}.new", self.folder / name)

    def served(self) -> bytes:
        """The certificate that the broker shows to a new connection."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", self.port), 30) as line, context.wrap_socket(line) as secure:
            found = secure.getpeercert(binary_form=True)
        assert found is not None
        return ssl.DER_cert_to_PEM_cert(found).encode()

    def load(self, topic: str, keys: dict[str, str]) -> Load:
        return Load(self.namesrv, topic, tls=TlsClient(trust_cert_path=str(self.trust)), **keys)

    def ariane(self, *words: str) -> None:
        environ = {"ARIANE_PROFILES": str(self.folder / "profiles.toml"), "ARIANE_PROFILE": "site"}
        done = run("ariane", *words, environ=environ)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    with ExitStack() as running:
        for server in ("namesrv", "broker"):
            running.enter_context(
                program(made.folder, "ariane", server, "-c", str(made.folder / f"{server}.conf"))
            ).await_text("127.0.0.1")
        yield made


def test_certificates_are_replaced_without_a_failed_send(site: Site) -> None:
    old = site.old[1]
    with site.load("sealed", OLD) as load:
        assert site.served().strip() == old.strip()
        before = (site.folder / "server.pem").read_bytes()
        key, new = make_self_signed("localhost")
        site.replace("trust.pem", before + new)  # first everybody trusts both
        site.replace("server.key", key)
        site.replace("server.pem", new)
        assert site.served().strip() == new.strip()
        site.replace("trust.pem", new)
        start = len(load.sent)
        until(lambda: len(load.sent) > start + 50, PATIENCE, "sends on the old connection")
        with site.load("sealed-again", OLD):  # new connections trust only the new one
            pass


def test_a_key_is_replaced_by_a_second_account_without_a_failed_send(site: Site) -> None:
    with site.load("signed", OLD):
        site.ariane(
            "acl", "update", NEW["access_key"], "--secret-key", NEW["secret_key"], "--topic-default", "PUB|SUB",
            "--group-default", "SUB",
        )  # fmt: skip
        with site.load("signed-anew", NEW):
            pass
    with site.load("signed", NEW) as load:
        site.ariane("acl", "delete", OLD["access_key"], "--yes")
        start = len(load.sent)
        until(lambda: len(load.sent) > start + 50, PATIENCE, "sends with the new key")
        tls = TlsClient(trust_cert_path=str(site.trust))
        with Producer("late", name_servers=site.namesrv, tls=tls, retries=0, **OLD) as late, pytest.raises(ArianeError):
            late.send(Message("signed", b"with the old key"))
