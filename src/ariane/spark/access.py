"""Access to a cluster: addresses, access keys and TLS, as options of a read or write."""

from dataclasses import dataclass, field
from typing import Final

from ariane.access.signer import Signer
from ariane.client.options import ClientOptions, split_addresses
from ariane.errors import ConfigError
from ariane.remoting import TlsClient
from ariane.spark.options import SparkOptions

ACCESS_OPTIONS: Final = (
    "nameServer", "accessKey", "secretKey", "securityToken", "tls", "tlsInsecure", "tlsTrustCertPath",
    "tlsCertPath", "tlsKeyPath", "tlsKeyPassword",
)  # fmt: skip


@dataclass(frozen=True)
class Access:
    """Plain values only: it is pickled to executors, which open connections with it."""

    name_servers: tuple[str, ...]
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_insecure: bool = False
    tls_trust_cert_path: str | None = None
    tls_cert_path: str | None = None
    tls_key_path: str | None = None
    tls_key_password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, given: SparkOptions) -> "Access":
        access = cls(
            name_servers=split_addresses(given.required("nameServer").replace(",", ";")),
            access_key=given.text("accessKey") or None,
            secret_key=given.text("secretKey") or None,
            security_token=given.text("securityToken") or None,
            tls=given.flag("tls", False),
            tls_insecure=given.flag("tlsInsecure", False),
            tls_trust_cert_path=given.text("tlsTrustCertPath") or None,
            tls_cert_path=given.text("tlsCertPath") or None,
            tls_key_path=given.text("tlsKeyPath") or None,
            tls_key_password=given.text("tlsKeyPassword") or None,
        )
        if (access.access_key is None) != (access.secret_key is None):
            raise ConfigError("options accessKey and secretKey go together: one of them is missing")
        if not access.tls and any(name.startswith("tls") and name != "tls" for name in given.values):
            raise ConfigError("options tls… are given, but tls=true is not")
        access._check_certificates(given)
        return access

    def _check_certificates(self, given: SparkOptions) -> None:
        """Raise ConfigError for an option that would have no effect: a user relies on it."""
        for name, needed in (
            ("tlsKeyPath", "tlsCertPath" if self.tls_cert_path is None else ""),
            ("tlsKeyPassword", "tlsKeyPath" if self.tls_key_path is None else ""),
        ):
            if name in given and needed:
                raise ConfigError(f"option {name} needs option {needed}")
        if self.tls_insecure and self.tls_trust_cert_path is not None:
            raise ConfigError("option tlsInsecure=true verifies nothing: it contradicts tlsTrustCertPath")

    def signer(self) -> Signer | None:
        """The signer of requests; None without keys."""
        if self.access_key is None or self.secret_key is None:
            return None
        return Signer(self.access_key, self.secret_key, self.security_token)

    def tls_client(self) -> TlsClient | None:
        """TLS settings of connections; None when they are plain."""
        if not self.tls:
            return None
        return TlsClient(
            trust_cert_path=self.tls_trust_cert_path,
            cert_path=self.tls_cert_path,
            key_path=self.tls_key_path,
            key_password=self.tls_key_password,
            insecure=self.tls_insecure,
        )

    def client_options(self) -> ClientOptions:
        """These settings as options of Ariane's clients."""
        return ClientOptions(
            name_servers=self.name_servers,
            access_key=self.access_key,
            secret_key=self.secret_key,
            security_token=self.security_token,
            tls=self.tls_client(),
        )
