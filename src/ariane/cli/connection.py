"""How a command finds its cluster: `-n`, NAMESRV_ADDR, or a profile with name servers, keys and TLS.

Profiles are in one TOML file, `~/.config/ariane/profiles.toml` or the file that ARIANE_PROFILES names:

    default = "dev"

    [dev]
    name_servers = "127.0.0.1:9876"

    [production]
    name_servers = "10.0.0.1:9876;10.0.0.2:9876"
    access_key = "operator"
    secret_key = "..."
    tls = { trust_cert_path = "/etc/ariane/ca.pem" }
"""

import os
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from ariane.client.options import ClientOptions
from ariane.errors import ConfigError
from ariane.remoting import TlsClient

DEFAULT_NAMESRV = "127.0.0.1:9876"
_KEYS = {"name_servers", "access_key", "secret_key", "security_token", "namespace", "tls"}
_TLS_KEYS = {one.name for one in fields(TlsClient) if one.init}


def check_name_servers(text: str) -> str:
    """Name servers as `-n` takes them; ConfigError says what is wrong with others."""
    if "," in text:
        raise ConfigError(f"-n {text}: separate name servers by semicolons: {';'.join(re.split('[,; ]+', text))}")
    if text.startswith(("http://", "https://")) and not text.split("://", 1)[1].rstrip("/").partition("/")[2]:
        plain = text.split("://", 1)[1].rstrip("/")
        raise ConfigError(
            f"-n {text}: name servers do not speak HTTP: give {plain} (an http:// address with a path may name a page "
            "that lists name servers)"
        )
    return text


def profiles_file() -> Path:
    """Where profiles are."""
    given = os.environ.get("ARIANE_PROFILES")
    return Path(given) if given else Path.home() / ".config" / "ariane" / "profiles.toml"


def read_profile(name: str | None) -> dict[str, Any]:
    """The settings of a profile, of the default one without a name; empty when there is none."""
    path = profiles_file()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if name is not None:
            raise ConfigError(f"profile {name}: there is no {path}; write it, or give -n") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    chosen = name or table.get("default")
    if chosen is None:
        return {}
    profile = table.get(chosen)
    if not isinstance(profile, dict):
        known = ", ".join(sorted(key for key, value in table.items() if isinstance(value, dict))) or "none"
        raise ConfigError(f"{path}: there is no profile {chosen!r}; it has {known}")
    unknown = sorted(profile.keys() - _KEYS)
    if unknown:
        raise ConfigError(f"{path}, profile {chosen}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}")
    return profile


def client_options(namesrv: str | None, profile: str | None = None, *, tools_file: Path | None = None) -> ClientOptions:
    """The options of a command's client.

    A profile that is chosen gives all, but its name servers where `-n` names others. The default profile counts only
    where neither `-n` nor NAMESRV_ADDR is given: its keys must not go to a cluster that it does not name.
    """
    chosen = profile or os.environ.get("ARIANE_PROFILE")
    given = namesrv or (None if chosen else os.environ.get("NAMESRV_ADDR"))
    settings = read_profile(chosen) if chosen or not given else {}
    addresses = given or settings.get("name_servers")
    keys: dict[str, Any] = {key: settings[key] for key in _KEYS - {"name_servers", "tls"} if key in settings}
    if tools_file is not None and "access_key" not in keys:
        keys |= _tools_keys(tools_file)
    tls = settings.get("tls")
    if tls:
        wanted = tls if isinstance(tls, dict) else {}
        if wanted.keys() - _TLS_KEYS:
            raise ConfigError(f"profile: unknown key in tls; known are {', '.join(sorted(_TLS_KEYS))}")
        keys["tls"] = TlsClient(**wanted)
    try:
        return ClientOptions(name_servers=check_name_servers(addresses or DEFAULT_NAMESRV), **keys)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _tools_keys(path: Path) -> dict[str, str]:
    """The keys of mqadmin's `tools.yml`."""
    found = dict(re.findall(r"^(accessKey|secretKey):\s*['\"]?([^'\"\s#]+)", path.read_text("utf-8"), re.MULTILINE))
    if len(found) < 2:
        return {}
    return {"access_key": found["accessKey"], "secret_key": found["secretKey"]}
