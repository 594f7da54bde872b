"""Login by OpenID Connect: the authorization code flow with PKCE, state and nonce. Roles come from a claim."""

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import httpx
import jwt

from ariane.console.config_file import FILE, ConfigFile, OidcOptions
from ariane.console.people.users import User
from ariane.env import Clock
from ariane.errors import ArianeError, ConfigError

PATIENCE: Final = 10.0  # seconds for an answer of the provider
LARGEST: Final = 1 << 20  # bytes of an answer
MOST: Final = 1000  # logins under way
TIME: Final = 600.0  # seconds for one
KEEP: Final = 3600.0  # seconds that the provider's description is kept
REFRESH: Final = 60.0  # seconds between two questions for its keys
LEEWAY: Final = 60  # seconds that clocks may differ
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Public keys only: with a shared secret, whoever can check a token could write one."""


class OidcRefused(ArianeError):
    """The provider's answer does not let anybody in."""


@dataclass(frozen=True)
class Begun:
    """A login under way."""

    nonce: str
    verifier: str
    target: str
    expires: float


class Oidc:
    """One provider."""

    def __init__(self, config: ConfigFile, options: OidcOptions, url: str, clock: Clock) -> None:
        self._options = options
        self._secret = config.secret(options.client_secret_file) if options.client_secret_file else ""
        self._redirect = (options.url or url).rstrip("/") + "/oidc/callback"
        self._clock = clock
        self._begun: OrderedDict[str, Begun] = OrderedDict()
        self._provider: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, dict[str, Any]] | None = None
        if not is_private(options.issuer):
            raise ConfigError(f"{FILE}: oidc.issuer must be an address of https")

    async def begin(self, target: str) -> tuple[str, str]:
        """Begin a login; returns its state, and where the browser goes."""
        provider = await self._discover()
        now = self._clock.monotonic()
        while self._begun and (len(self._begun) >= MOST or next(iter(self._begun.values())).expires <= now):
            self._begun.popitem(last=False)
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        self._begun[state] = Begun(nonce, verifier, target, now + TIME)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._options.client_id,
            "redirect_uri": self._redirect,
            "scope": " ".join(self._options.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._endpoint(provider, "authorization_endpoint")
        return state, endpoint + ("&" if "?" in endpoint else "?") + urlencode(query)

    async def finish(self, state: str, cookie: str, code: str) -> tuple[User, str]:
        """End a login that this browser began; returns the user and where it wanted to go. OidcRefused otherwise."""
        if not state or not hmac.compare_digest(state.encode(), cookie.encode()):
            raise OidcRefused("this browser did not begin the login")
        begun = self._begun.pop(state, None)
        if begun is None or begun.expires <= self._clock.monotonic():
            raise OidcRefused("the login took too long: try again")
        provider = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "client_id": self._options.client_id,
            "code_verifier": begun.verifier,
        }
        credentials = (self._options.client_id, self._secret) if self._secret else None
        answer = await self._ask("POST", self._endpoint(provider, "token_endpoint"), data=form, auth=credentials)
        claims = await self._claims(provider, str(answer.get("id_token", "")))
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), begun.nonce.encode()):
            raise OidcRefused("the token is of another login")
        return self._user(claims), begun.target

    def _user(self, claims: dict[str, Any]) -> User:
        found = claims.get(self._options.role_claim)
        values = [found] if isinstance(found, str) else [one for one in found or () if isinstance(one, str)]
        name = str(claims.get(self._options.name_claim) or claims["sub"])[:64]
        if not name.isprintable():
            raise OidcRefused("the name has characters that cannot be shown")
        role = self._options.role_of(values)
        if role is None:
            raise OidcRefused(f"{name} has no role here: none of {self._options.role_claim} is known")
        return User(f"oidc:{name}", role, "")

    async def _claims(self, provider: dict[str, Any], token: str) -> dict[str, Any]:
        try:
            header = jwt.get_unverified_header(token)
            key = await self._key(provider, header.get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._options.client_id,
                issuer=self._options.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError) as error:
            raise OidcRefused(f"the token is not valid: {error}") from None
        audience = claims["aud"]
        if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != self._options.client_id:
            raise OidcRefused("the token is for another client")
        return claims

    async def _key(self, provider: dict[str, Any], wanted: str | None) -> Any:
        """The provider's key of a token; keys are asked for again when there is a new one, once a minute at most."""
        now = self._clock.monotonic()
        for again in (False, True):
            if self._keys is None or (again and now - self._keys[0] >= REFRESH):
                self._keys = now, await self._ask("GET", self._endpoint(provider, "jwks_uri"))
            keys = jwt.PyJWKSet.from_dict(self._keys[1]).keys
            signing = [one for one in keys if one.public_key_use in (None, "sig")]
            for one in signing:
                if one.key_id == wanted or (wanted is None and len(signing) == 1):
                    return one.key
        raise OidcRefused("the token is signed by a key that the provider does not show")

    async def _discover(self) -> dict[str, Any]:
        now = self._clock.monotonic()
        if self._provider is None or now - self._provider[0] >= KEEP:
            address = self._options.issuer.rstrip("/") + "/.well-known/openid-configuration"
            found = await self._ask("GET", address)
            if found.get("issuer") != self._options.issuer:
                raise OidcRefused(f"the provider calls itself {str(found.get('issuer'))[:200]}")
            self._provider = now, found
        return self._provider[1]

    def _endpoint(self, provider: dict[str, Any], name: str) -> str:
        address = str(provider.get(name, ""))
        if not is_private(address):
            raise OidcRefused(f"the provider has no {name} of https")
        return address

    async def _ask(self, method: str, address: str, **more: Any) -> dict[str, Any]:
        try:
            async with httpx.AsyncClient(timeout=PATIENCE, follow_redirects=False) as client:
                answer = await client.request(method, address, headers={"Accept": "application/json"}, **more)
                found = answer.json() if answer.status_code == 200 and len(answer.content) <= LARGEST else None
        except (httpx.HTTPError, ValueError) as error:
            raise OidcRefused(f"the provider does not answer: {type(error).__name__}") from None
        if not isinstance(found, dict):
            raise OidcRefused(f"the provider answered {answer.status_code}")
        return found


def is_private(address: str) -> bool:
    """Whether nobody on the way can read what is sent there: https, or this machine.

    >>> is_private("https://login.example"), is_private("http://login.example"), is_private("http://127.0.0.1:80")
    (True, False, True)
    """
    parts = urlsplit(address)
    if parts.scheme == "https" and parts.hostname:
        return True
    try:
        return parts.scheme == "http" and ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.scheme == "http" and parts.hostname == "localhost"
