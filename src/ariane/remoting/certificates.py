"""Sources of TLS contexts: files that may be renewed while the process runs, or a self-signed certificate."""

import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from ariane.errors import ProtocolError

log = logging.getLogger("ariane.remoting")

LOOPBACK = ("127.0.0.1", "::1")

Stamps = tuple[tuple[int, int], ...]


class ContextSource:
    """Builds a context at first use, and again when one of its files has changed."""

    def __init__(self, build: Callable[[], ssl.SSLContext], files: list[str]) -> None:
        self._build = build
        self._files = files
        self._context: ssl.SSLContext | None = None
        self._stamps: Stamps = ()

    def get(self) -> ssl.SSLContext:
        """The context for a new connection; ProtocolError says what is wrong with the files."""
        stamps = tuple(_stamp(file) for file in self._files)
        if self._context is None or stamps != self._stamps:
            self._context = self._renew()
            self._stamps = stamps
        return self._context

    def _renew(self) -> ssl.SSLContext:
        try:
            return self._build()
        except (OSError, ssl.SSLError) as error:
            reason = f"TLS cannot be set up from {', '.join(self._files)}: {error}"
            if self._context is None:
                raise ProtocolError(reason) from None
            log.error("%s; the certificates read before stay in use", reason)
            return self._context


def _stamp(file: str) -> tuple[int, int]:
    try:
        stat = os.stat(file)
    except OSError:  # reading the file reports what is wrong
        return (0, 0)
    return (stat.st_mtime_ns, stat.st_size)


def self_signed_context(minimum: ssl.TLSVersion) -> ssl.SSLContext:
    """A server context with a new self-signed certificate, RocketMQ's test mode."""
    key, certificate = make_self_signed("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = minimum
    context.options |= ssl.OP_NO_RENEGOTIATION
    with tempfile.TemporaryDirectory(prefix="ariane-tls-") as folder:  # OpenSSL reads keys from files only
        path = Path(folder, "pair.pem")
        path.touch(mode=0o600)
        path.write_bytes(key + certificate)
        context.load_cert_chain(path)
    return context


def make_self_signed(name: str, addresses: Sequence[str] = LOOPBACK) -> tuple[bytes, bytes]:
    """Key and certificate in PEM for a host name and IP addresses, valid for ten years.

    The key is elliptic, because generating an RSA key takes long.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise ProtocolError(
            "a self-signed certificate needs the package cryptography: install ariane[broker]"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=3650))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    names: list[x509.GeneralName] = [x509.DNSName(name), *(x509.IPAddress(ip_address(a)) for a in addresses)]
    builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
    certificate = builder.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, certificate.public_bytes(pem)
