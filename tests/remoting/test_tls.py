"""TLS on the port of plain connections: the three modes, certificates, and their renewal."""

import asyncio
import re
import ssl
import warnings
from pathlib import Path

import pytest

from ariane.env import SystemFiles
from ariane.errors import ProtocolError, RemotingError
from ariane.protocol.command import Command
from ariane.protocol.frame import FrameDecoder, encode
from ariane.remoting import TlsClient, TlsMode, TlsServer
from ariane.remoting.certificates import make_self_signed
from ariane.remoting.tls_properties import tls_properties
from ariane.settings import ConfigError

from .conftest import ECHO, at, until


def pair(folder: Path, name: str) -> tuple[str, str]:
    """Paths of a key and a self-signed certificate."""
    key, certificate = make_self_signed(name)
    (folder / f"{name}.key").write_bytes(key)
    (folder / f"{name}.pem").write_bytes(certificate)
    return str(folder / f"{name}.key"), str(folder / f"{name}.pem")


def with_certificate(folder: Path, **options) -> TlsServer:
    key, certificate = pair(folder, "server")
    return TlsServer(test_mode=False, key_path=key, cert_path=certificate, **options)


@pytest.mark.parametrize(
    ("mode", "client", "works"),
    [
        (TlsMode.DISABLED, None, True),
        (TlsMode.DISABLED, TlsClient(insecure=True), False),
        (TlsMode.PERMISSIVE, None, True),
        (TlsMode.PERMISSIVE, TlsClient(insecure=True), True),
        (TlsMode.ENFORCING, None, False),
        (TlsMode.ENFORCING, TlsClient(insecure=True), True),
    ],
)
async def test_the_mode_decides_who_may_talk(serve, dial, mode, client, works):
    server = await serve(tls=TlsServer(mode))
    caller = dial(tls=client)
    if not works:
        with pytest.raises(RemotingError):
            await caller.request(at(server), Command(ECHO), 30)
        return
    assert (await caller.request(at(server), Command(ECHO, body=b"b"), 30)).body == b"b"
    [connection] = server.connections
    assert connection.secure == (client is not None)
    assert (await caller.connection(at(server))).secure == (client is not None)


async def test_plain_and_secure_clients_share_a_port(serve, dial):
    server = await serve(tls=TlsServer())
    plain, secure = dial(), dial(tls=TlsClient(insecure=True))
    for client in (plain, secure, plain, secure):
        assert (await client.request(at(server), Command(ECHO), 30)).code == 0
    assert {connection.secure for connection in server.connections} == {True, False}


async def test_many_requests_and_large_bodies_over_tls(serve, dial):
    server = await serve(tls=TlsServer())
    client = dial(tls=TlsClient(insecure=True))
    bodies = [bytes([n % 256]) * n * 1000 for n in range(200)]
    answers = await asyncio.gather(*(client.request(at(server), Command(ECHO, body=b), 20) for b in bodies))
    assert [answer.body for answer in answers] == bodies


async def test_a_tls_hello_may_come_byte_by_byte(serve):
    server = await serve(tls=TlsServer())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    layer = TlsClient(insecure=True).layer("127.0.0.1")
    out = layer.start()
    decoder = FrameDecoder()
    layer.encrypt(encode(Command(ECHO, opaque=3)))  # waits for the handshake
    while not (answers := decoder.take()):
        for byte in out:
            writer.write(bytes((byte,)))
            await writer.drain()
        decoder.feed(layer.decrypt(await asyncio.wait_for(reader.read(4096), 30)))
        out = layer.outgoing()
    assert answers[0].opaque == 3
    writer.close()


async def test_openssl_of_python_talks_to_our_layer(serve, tmp_path):
    """asyncio's own TLS as the other side."""
    server = await serve(tls=with_certificate(tmp_path))
    context = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
    context.check_hostname = False
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    writer.write(encode(Command(ECHO, opaque=9, body=b"x" * 100_000)))
    decoder = FrameDecoder()
    while not (answers := decoder.take()):
        decoder.feed(await asyncio.wait_for(reader.read(1 << 16), 30))
    assert len(answers[0].body) == 100_000
    writer.close()
    await until(lambda: not server.connections)


async def test_a_client_may_check_the_server(serve, dial, tmp_path):
    server = await serve(tls=with_certificate(tmp_path))
    _, other = pair(tmp_path, "other")
    trusting = TlsClient(trust_cert_path=str(tmp_path / "server.pem"))
    assert (await dial(tls=trusting).request(at(server), Command(ECHO), 30)).code == 0
    wary = TlsClient(trust_cert_path=other)
    with pytest.raises(RemotingError, match="TLS"):
        await dial(tls=wary).request(at(server), Command(ECHO), 30)


@pytest.mark.parametrize("asked", [{}, {"auth_server": True}])
async def test_a_client_verifies_unless_told_otherwise(serve, dial, tmp_path, asked):
    """Whatever is said of trust, an unknown certificate is refused; only `insecure` accepts it."""
    server = await serve(tls=with_certificate(tmp_path))
    _, other = pair(tmp_path, "other")
    for suspicious in (TlsClient(**asked), TlsClient(trust_cert_path=other, **asked)):
        with pytest.raises(RemotingError, match="certificate of the peer is refused"):
            await dial(tls=suspicious).request(at(server), Command(ECHO), 30)
    assert (await dial(tls=TlsClient(insecure=True)).request(at(server), Command(ECHO), 30)).code == 0


def test_not_to_verify_has_to_be_said_by_its_name():
    with pytest.raises(ConfigError, match="insecure=True"):
        TlsClient(auth_server=False)


async def test_a_certificate_of_another_host_is_refused(serve, dial, tmp_path):
    key, certificate = make_self_signed("elsewhere.example", ["192.0.2.1"])
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "pem").write_bytes(certificate)
    trusted = str(tmp_path / "pem")
    server = await serve(tls=TlsServer(test_mode=False, key_path=str(tmp_path / "key"), cert_path=trusted))
    for address in (at(server), f"localhost:{server.port}"):
        with pytest.raises(RemotingError, match="mismatch"):
            await dial(tls=TlsClient(trust_cert_path=trusted)).request(address, Command(ECHO), 30)
    chain_alone = TlsClient(trust_cert_path=trusted, check_host_name=False)
    assert (await dial(tls=chain_alone).request(at(server), Command(ECHO), 30)).code == 0


async def test_versions_before_1_2_are_refused(serve, tmp_path):
    server = await serve(tls=with_certificate(tmp_path))
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", server.port, ssl=old)


def test_rocketmqs_properties_keep_their_meaning():
    """Test mode verifies nothing; otherwise `authServer` verifies the chain, and never the host name."""
    on = {"tls.enable": "true", "tls.client.certPath": "/c", "tls.client.trustCertPath": "/ca"}
    assert TlsClient.from_properties(on) == TlsClient(insecure=True, check_host_name=False)
    real = {**on, "tls.test.mode.enable": "false"}
    assert TlsClient.from_properties(real) == TlsClient("/ca", "/c", insecure=True, check_host_name=False)
    checked = TlsClient.from_properties({**real, "tls.client.authServer": "true"})
    assert checked == TlsClient("/ca", "/c", check_host_name=False)
    assert checked.verifies


def test_passwords_are_not_in_the_text_of_tls_options():
    secrets = repr(TlsClient(key_password="hush")) + repr(TlsServer(key_password="hush"))
    assert "hush" not in secrets


async def test_a_server_may_demand_a_trusted_client(serve, dial, tmp_path):
    key, certificate = pair(tmp_path, "client")
    other_key, other = pair(tmp_path, "other")
    tls = with_certificate(tmp_path, need_client_auth="require", auth_client=True, trust_cert_path=certificate)
    server = await serve(tls=tls)
    known = TlsClient(insecure=True, key_path=key, cert_path=certificate)
    assert (await dial(tls=known).request(at(server), Command(ECHO), 30)).code == 0
    for stranger in (TlsClient(insecure=True), TlsClient(insecure=True, key_path=other_key, cert_path=other)):
        with pytest.raises(RemotingError):
            await dial(tls=stranger).request(at(server), Command(ECHO), 30)


async def test_a_renewed_certificate_is_taken_without_a_restart(serve, dial, tmp_path):
    server = await serve(tls=with_certificate(tmp_path))
    first = (tmp_path / "server.pem").read_bytes()
    assert (await dial(tls=trusting(tmp_path, first)).request(at(server), Command(ECHO), 30)).code == 0
    pair(tmp_path, "server")
    second = (tmp_path / "server.pem").read_bytes()
    assert (await dial(tls=trusting(tmp_path, second)).request(at(server), Command(ECHO), 30)).code == 0
    (tmp_path / "server.pem").write_text("damaged while it is copied")
    assert (await dial(tls=trusting(tmp_path, second)).request(at(server), Command(ECHO), 30)).code == 0


async def test_a_client_takes_renewed_files_without_a_restart(serve, dial, tmp_path):
    """Those of the authorities that it trusts, and its own certificate."""
    pair(tmp_path, "client")
    tls = with_certificate(
        tmp_path, need_client_auth="require", auth_client=True, trust_cert_path=str(tmp_path / "known.pem")
    )
    (tmp_path / "known.pem").write_bytes((tmp_path / "client.pem").read_bytes())
    server = await serve(tls=tls)
    (tmp_path / "trusted.pem").write_bytes((tmp_path / "server.pem").read_bytes())
    client = dial(
        tls=TlsClient(
            trust_cert_path=str(tmp_path / "trusted.pem"),
            key_path=str(tmp_path / "client.key"),
            cert_path=str(tmp_path / "client.pem"),
        )
    )
    assert (await client.request(at(server), Command(ECHO), 30)).code == 0
    pair(tmp_path, "server")
    pair(tmp_path, "client")
    client.drop(at(server), "to connect again")
    with pytest.raises(RemotingError):
        await client.request(at(server), Command(ECHO), 30)
    (tmp_path / "known.pem").write_bytes((tmp_path / "client.pem").read_bytes())
    (tmp_path / "trusted.pem").write_bytes((tmp_path / "server.pem").read_bytes())
    client.drop(at(server), "to connect again")
    assert (await client.request(at(server), Command(ECHO), 30)).code == 0


async def test_a_server_with_certificates_that_cannot_be_used_does_not_start(serve, tmp_path):
    key, certificate = pair(tmp_path, "server")
    pair(tmp_path, "other")
    with pytest.raises(ConfigError, match="TLS cannot be set up"):
        await serve(tls=TlsServer(test_mode=False, key_path=str(tmp_path / "other.key"), cert_path=certificate))
    with pytest.raises(ConfigError, match=re.escape("missing.pem")):
        await serve(tls=TlsServer(test_mode=False, key_path=key, cert_path=str(tmp_path / "missing.pem")))


def trusting(folder: Path, certificate: bytes) -> TlsClient:
    (folder / "trusted.pem").write_bytes(certificate)
    return TlsClient(trust_cert_path=str(folder / "trusted.pem"))


async def test_one_way_requests_before_goodbye_are_handled(serve, dial):
    seen = []
    server = await serve({1: lambda _, r: seen.append(r.body)}, tls=TlsServer())
    client = dial(tls=TlsClient(insecure=True))
    for n in range(100):
        await client.oneway(at(server), Command(1, body=b"%d" % n))
    await until(lambda: seen)
    await client.close()
    await until(lambda: len(seen) == 100)


def test_properties_are_rocketmqs(tmp_path):
    file = tmp_path / "tls.properties"
    file.write_text("tls.test.mode.enable=false\ntls.server.keyPath=/k\ntls.server.certPath=/c\ntls.enable=true\n")
    values = {"tls.config.file": str(file), "tls.server.mode": "enforcing", "tls.server.keyPath": None, "x": 1}
    properties = tls_properties(values, SystemFiles())
    server = TlsServer.from_properties(properties)
    assert (server.mode, server.test_mode, server.key_path) == (TlsMode.ENFORCING, False, "/k")
    assert TlsClient.from_properties(properties) == TlsClient(insecure=True, check_host_name=False)
    assert TlsClient.from_properties({}) is None
    assert TlsServer.from_properties({}) == TlsServer(TlsMode.PERMISSIVE)


def test_a_server_without_a_certificate_is_refused_at_birth():
    with pytest.raises(ConfigError, match=r"tls\.server\.certPath"):
        TlsServer(test_mode=False)


def test_a_mode_nobody_knows_is_named():
    with pytest.raises(
        ConfigError, match=r"tls\.server\.mode: expected one of disabled, permissive, enforcing, got 'on'"
    ):
        TlsServer.from_properties({"tls.server.mode": "on"})


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    file = tmp_path / "tls.properties"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"tls\.properties"):
        tls_properties({"tls.config.file": str(file)}, SystemFiles())


def test_missing_files_are_named(tmp_path):
    server = TlsServer(test_mode=False, key_path=str(tmp_path / "no.key"), cert_path=str(tmp_path / "no.pem"))
    with pytest.raises(ProtocolError, match=r"no\.pem"):
        server.layer(hello=True)
