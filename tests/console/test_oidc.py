"""Login by OpenID Connect: against a provider on loopback, in Chromium and with tokens that lie."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import Browser, expect

from tests.cluster import Cluster
from tests.console.conftest import Tab
from tests.console.provider import CLIENT, SECRET, Provider, running_provider
from tests.console.site import Site, start_site, write_users

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as running:
        yield running


@pytest.fixture(autouse=True)
def honest(provider: Provider) -> None:
    provider.claims = {"sub": "1", "preferred_username": "anna", "groups": ["ops"]}
    provider.lies, provider.sign_as, provider.sign_with = {}, "RS256", provider.key


@pytest.fixture(scope="module")
def oidc_site(cluster: Cluster, provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("console") / "files"
    write_users(folder)
    (folder / "client-secret").write_text(SECRET + "\n")
    (folder / "console.toml").write_text(
        f'[oidc]\nissuer = "{provider.issuer}"\nclient_id = "{CLIENT}"\nclient_secret_file = "client-secret"\n'
        'operators = ["ops"]\nadmins = ["chiefs"]\n'
    )
    running = start_site(folder, cluster.namesrv)
    try:
        yield running
    finally:
        assert SECRET not in running.stop()


def log_in(site: Site, client: httpx.Client, target: str = "/") -> httpx.Response:
    """Follow the login as a browser does."""
    begun = client.get(f"{site.url}oidc/login", params={"next": target})
    assert begun.status_code == 303
    allowed = client.get(begun.headers["location"])
    return client.get(allowed.headers["location"])


def entries(site: Site) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (site.folder / "audit.jsonl").read_text().splitlines()]


def test_a_user_of_the_provider_logs_in_with_the_role_of_its_group(browser: Browser, oidc_site: Site) -> None:
    context = browser.new_context(locale="en-US")
    tab = Tab(context.new_page(), oidc_site)
    page = tab.page
    page.goto(f"{oidc_site.url}c/main/topics")
    page.get_by_role("link", name="Log in with your organization").click()
    page.get_by_role("link", name="Allow").click()
    page.wait_for_url(re.compile("/c/main/topics$"))  # where it wanted to go
    expect(page.get_by_role("button", name="Account")).to_contain_text("oidc:anna")
    expect(page.get_by_role("button", name="Create topic")).to_be_visible()  # an operator
    page.get_by_role("button", name="Account").click()
    assert page.get_by_text("Change password").count() == 0
    page.get_by_text("Log out").click()
    page.wait_for_url(re.compile("/login"))
    context.close()
    assert tab.problems == []
    assert (entries(oidc_site)[-1]["user"], entries(oidc_site)[-1]["outcome"]) == ("oidc:anna", "done")


def test_a_session_of_the_provider_has_no_password_here(oidc_site: Site) -> None:
    with httpx.Client(headers={"Accept": "*/*", "Origin": oidc_site.url.rstrip("/")}) as client:
        assert log_in(oidc_site, client).status_code == 200
        assert client.get(f"{oidc_site.url}c/main/users").status_code == 403
        answer = client.post(f"{oidc_site.url}password", data={"csrf": "x"})
        assert answer.status_code == 403


@pytest.mark.parametrize(
    ("lies", "why"),
    [
        ({"nonce": "of another login"}, "another login"),
        ({"aud": "another-client"}, "not valid"),
        ({"aud": [CLIENT, "other"]}, "another client"),
        ({"iss": "https://elsewhere.example"}, "not valid"),
        ({"exp": int(time.time()) - 3600}, "not valid"),
        ({"groups": ["sales"]}, "no role"),
        ({"groups": None}, "no role"),
        ({"preferred_username": "a\nb"}, "cannot be shown"),
    ],
)
def test_a_token_that_lies_lets_nobody_in(oidc_site: Site, provider: Provider, lies: dict[str, Any], why: str) -> None:
    provider.lies = lies
    with httpx.Client(headers={"Accept": "*/*"}) as client:
        answer = log_in(oidc_site, client)
        assert answer.status_code == 403
        assert why in answer.text
        assert client.get(f"{oidc_site.url}c/main/cluster").status_code == 401
    assert entries(oidc_site)[-1]["outcome"].startswith("refused: ")


def test_a_token_needs_the_signature_of_the_provider(oidc_site: Site, provider: Provider) -> None:
    public = provider.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for algorithm, key in (
        ("RS256", rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        ("none", None),
        ("HS256", "a key of thirty-two letters and more"),
    ):
        provider.sign_as, provider.sign_with = algorithm, key
        with httpx.Client(headers={"Accept": "*/*"}) as client:
            assert log_in(oidc_site, client).status_code == 403, algorithm
    with pytest.raises(jwt.PyJWTError):  # the library refuses to sign like this, as it refuses to believe it
        jwt.encode({}, public, algorithm="HS256")


def test_a_login_is_of_the_browser_that_began_it_and_only_once(oidc_site: Site) -> None:
    with httpx.Client(headers={"Accept": "*/*"}) as client, httpx.Client(headers={"Accept": "*/*"}) as other:
        begun = client.get(f"{oidc_site.url}oidc/login")
        back = client.get(begun.headers["location"]).headers["location"]
        assert other.get(back).status_code == 403  # the cookie is missing
        assert client.get(back).status_code == 200
        assert client.get(back).status_code == 403  # a second time
        state = parse_qs(urlsplit(back).query)["state"][0]
        other.cookies.set("ariane_console_oidc", state)
        assert other.get(back).status_code == 403
        assert client.get(f"{oidc_site.url}oidc/callback?error=access_denied").status_code == 403


def test_a_login_leads_to_no_other_site(oidc_site: Site) -> None:
    with httpx.Client(headers={"Accept": "*/*"}) as client:
        answer = log_in(oidc_site, client, "//evil.example")
        assert 'content="0;url=/"' in answer.text
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie


def test_an_issuer_without_encryption_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "console.toml").write_text(
        '[oidc]\nissuer = "http://login.example"\nclient_id = "a"\nviewers = ["a"]\n'
    )
    with pytest.raises(AssertionError, match="address of https"):
        start_site(tmp_path / "files", cluster.namesrv)
