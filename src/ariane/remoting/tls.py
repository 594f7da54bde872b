"""TLS on the same port as plain connections, as in RocketMQ: the first byte of a connection decides.

The layer is sans-IO (bytes in, bytes out): asyncio's own TLS cannot start with bytes that were already read.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ariane.errors import ConfigError, ProtocolError
from ariane.remoting.certificates import ContextSource, self_signed_context

_HANDSHAKE = 0x16  # first byte of a TLS client's first record; as a frame length it would be 369 MB
_CHUNK = 1 << 18
MINIMUM_VERSION = ssl.TLSVersion.TLSv1_2


class TlsMode(StrEnum):
    """Whether a server refuses, accepts or requires TLS."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"

    @classmethod
    def parse(cls, text: str) -> "TlsMode":
        """Parse the mode of a configuration; ConfigError names the valid ones."""
        try:
            return cls(text)
        except ValueError:
            wanted = ", ".join(cls)
            raise ConfigError(f"expected one of {wanted}, got {text!r}", key="tls.server.mode") from None


def is_client_hello(data: bytes) -> bool:
    """Whether a connection that starts with these bytes is TLS."""
    return data[0] == _HANDSHAKE


class TlsLayer:
    """Encrypts and decrypts one connection."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, host: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side, host)
        self._ready = False
        self._early: list[bytes] = []  # written before the end of the handshake
        self.finished = False

    def start(self) -> bytes:
        """The first bytes to send."""
        self._shake_hands()
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """Decrypt what has arrived; ProtocolError when the peer's TLS is not acceptable. Send `outgoing` afterwards."""
        self._incoming.write(data)
        try:
            if not self._ready:
                self._shake_hands()
            return self._read() if self._ready else b""
        except ssl.SSLCertVerificationError as error:
            raise ProtocolError(
                f"TLS: the certificate of the peer is refused: {error.verify_message}; "
                "trust its authority (trust_cert_path) and connect by a name that it certifies"
            ) from None
        except ssl.SSLError as error:
            raise ProtocolError(f"TLS: {error.reason or error}") from None

    def encrypt(self, data: bytes) -> bytes:
        """Encrypt data to send; it is held back while the handshake runs."""
        if not self._ready:
            self._early.append(data)
            return b""
        self._tls.write(data)
        return self._outgoing.read()

    @property
    def unfinished(self) -> bool:
        """Whether the handshake runs, or a record has not arrived whole."""
        return not self._ready or self._incoming.pending > 0

    def outgoing(self) -> bytes:
        """The bytes that the layer itself has to send: handshake, alerts, and data held back."""
        return self._outgoing.read()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        self._ready = True
        early, self._early = self._early, []
        for data in early:
            self._tls.write(data)

    def _read(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._tls.read(_CHUNK):
                parts.append(part)
            self.finished = True
        except ssl.SSLWantReadError:
            pass  # all complete records were read
        except ssl.SSLZeroReturnError:
            self.finished = True
        return b"".join(parts)


@dataclass(frozen=True)
class TlsServer:
    """How a server speaks TLS; field by field the `tls.server.*` properties of RocketMQ.

    In test mode, RocketMQ's default, it generates a self-signed certificate for the first TLS client.
    """

    mode: TlsMode = TlsMode.PERMISSIVE
    test_mode: bool = True
    key_path: str | None = None
    key_password: str | None = field(default=None, repr=False)
    cert_path: str | None = None
    need_client_auth: str = "none"
    auth_client: bool = False
    trust_cert_path: str | None = None
    _source: ContextSource = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_source", ContextSource(self._build, self._files()))
        if self.mode is not TlsMode.DISABLED and not self.test_mode and not (self.cert_path and self.key_path):
            reason = "needed together with tls.server.keyPath when tls.test.mode.enable is false"
            raise ConfigError(reason, key="tls.server.certPath")

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> "TlsServer":
        """Read RocketMQ's keys, as in `tls.properties`; other keys are ignored."""
        return cls(
            mode=TlsMode.parse(_text(properties, "tls.server.mode") or TlsMode.PERMISSIVE),
            test_mode=_flag(properties, "tls.test.mode.enable", True),
            key_path=_text(properties, "tls.server.keyPath"),
            key_password=_text(properties, "tls.server.keyPassword"),
            cert_path=_text(properties, "tls.server.certPath"),
            need_client_auth=_text(properties, "tls.server.need.client.auth") or "none",
            auth_client=_flag(properties, "tls.server.authClient", False),
            trust_cert_path=_text(properties, "tls.server.trustCertPath"),
        )

    def check_files(self) -> None:
        """Raise ConfigError if the certificates cannot be used: such a server would refuse every TLS client."""
        if self.mode is TlsMode.DISABLED or self.test_mode:
            return
        try:
            self._source.get()
        except ProtocolError as error:
            raise ConfigError(str(error), key="tls.server.certPath") from None

    def layer(self, hello: bool) -> TlsLayer | None:
        """The TLS layer of a new connection, None for a plain one; ProtocolError when the mode forbids it."""
        if hello and self.mode is TlsMode.DISABLED:
            raise ProtocolError("the peer speaks TLS, which is disabled here (tls.server.mode)")
        if not hello and self.mode is TlsMode.ENFORCING:
            raise ProtocolError("the peer does not speak TLS, which is enforced here (tls.server.mode)")
        return TlsLayer(self._source.get(), server_side=True) if hello else None

    def _files(self) -> list[str]:
        return [] if self.test_mode else [p for p in (self.key_path, self.cert_path, self.trust_cert_path) if p]

    def _build(self) -> ssl.SSLContext:
        if self.test_mode:
            return self_signed_context(MINIMUM_VERSION)
        assert self.cert_path is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = MINIMUM_VERSION
        context.options |= ssl.OP_NO_RENEGOTIATION  # a handshake is expensive for a server and cheap for a client
        context.load_cert_chain(self.cert_path, self.key_path, self.key_password or "")
        if self.need_client_auth.lower() in ("optional", "require"):
            self._ask_for_client_certificate(context)
        return context

    def _ask_for_client_certificate(self, context: ssl.SSLContext) -> None:
        """Request a certificate and verify it: one that is not verified would prove nothing."""
        if not self.auth_client:
            if self.need_client_auth.lower() == "require":
                raise ProtocolError("tls.server.need.client.auth=require needs tls.server.authClient=true")
            return
        required = self.need_client_auth.lower() == "require"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        _trust(context, self.trust_cert_path, ssl.Purpose.CLIENT_AUTH)


@dataclass(frozen=True)
class TlsClient:
    """How a client speaks TLS. The server's certificate and host name are verified unless `insecure` is set.

    >>> TlsClient(trust_cert_path="ca.pem").verifies
    True
    """

    trust_cert_path: str | None = None
    """The authorities to trust; those of the system when there is none."""
    cert_path: str | None = None
    """The client's own certificate, for servers that ask for one."""
    key_path: str | None = None
    key_password: str | None = field(default=None, repr=False)
    insecure: bool = False
    """Encrypt only: any certificate of any host is accepted, so a machine in the middle can read everything."""
    check_host_name: bool = True
    """False: verify the chain of certificates alone, as RocketMQ's `tls.client.authServer` does."""
    auth_server: bool = True
    """RocketMQ's name for the verification, which is on; False is accepted only with `insecure=True`."""
    _source: ContextSource = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.auth_server and not self.insecure:
            raise ConfigError("auth_server=False verifies nothing: set insecure=True if that is intended", key="tls")
        files = [path for path in (self.key_path, self.cert_path, self.trust_cert_path) if path]
        object.__setattr__(self, "_source", ContextSource(self._build, files))

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> "TlsClient | None":
        """Read RocketMQ's keys with RocketMQ's meaning; None unless `tls.enable` is true.

        Test mode, RocketMQ's default, verifies nothing and shows no certificate; otherwise `tls.client.authServer`
        verifies the chain, never the host name.
        """
        if not _flag(properties, "tls.enable", False):
            return None
        if _flag(properties, "tls.test.mode.enable", True):
            return cls(insecure=True, check_host_name=False)
        return cls(
            trust_cert_path=_text(properties, "tls.client.trustCertPath"),
            cert_path=_text(properties, "tls.client.certPath"),
            key_path=_text(properties, "tls.client.keyPath"),
            key_password=_text(properties, "tls.client.keyPassword"),
            insecure=not _flag(properties, "tls.client.authServer", False),
            check_host_name=False,
        )

    @property
    def verifies(self) -> bool:
        """Whether certificates of servers are verified."""
        return not self.insecure

    def layer(self, host: str) -> TlsLayer:
        """The TLS layer for a new connection to a host; ProtocolError says what is wrong with the files."""
        context = self._source.get()
        try:
            return TlsLayer(context, server_side=False, host=host)
        except ValueError as error:
            raise ProtocolError(f"TLS: {host!r} is not a host name that a certificate can be for: {error}") from None

    def _build(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = MINIMUM_VERSION
        context.check_hostname = self.check_host_name and not self.insecure
        if self.insecure:
            context.verify_mode = ssl.CERT_NONE
        else:
            _trust(context, self.trust_cert_path, ssl.Purpose.SERVER_AUTH)
        if self.cert_path:
            context.load_cert_chain(self.cert_path, self.key_path, self.key_password or "")
        return context


def _trust(context: ssl.SSLContext, path: str | None, purpose: ssl.Purpose) -> None:
    if path:
        context.load_verify_locations(path)
    else:
        context.load_default_certs(purpose)


def _text(properties: Mapping[str, object], key: str) -> str | None:
    value = properties.get(key)
    return str(value) if value not in (None, "") else None


def _flag(properties: Mapping[str, object], key: str, default: bool) -> bool:
    value = properties.get(key)
    return default if value is None else str(value).strip().lower() == "true"
