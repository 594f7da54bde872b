"""Login, sessions, roles and origins, asked of the running server without a browser."""

import re
import socket
from pathlib import Path

import httpx
import pytest
from nicegui import __version__ as nicegui_version

from ariane.console.people.sessions import FAILURES, WINDOW, Guesses, Sessions
from ariane.console.people.users import UserError, Users, hash_password, is_password
from ariane.console.rights import PAGES, Role, may_see
from ariane.console.server import BUILDERS
from ariane.console.texts import catalogue
from ariane.env import ManualClock
from ariane.errors import ConfigError
from tests.cluster import Cluster
from tests.console.site import Site, start_site


@pytest.mark.parametrize("role", Role)
def test_each_role_sees_its_pages_and_no_others(site: Site, role: Role) -> None:
    with site.log_in(role.name.lower()) as client:
        for page in BUILDERS:
            answer = client.get(f"/c/main/{page}")
            assert answer.status_code == (200 if may_see(role, page) else 403), page


def test_every_page_has_a_role() -> None:
    assert BUILDERS.keys() <= PAGES.keys()


def test_nothing_is_served_without_a_session(site: Site) -> None:
    with httpx.Client(base_url=site.url) as client:
        pages = [f"/c/main/{page}" for page in BUILDERS]
        for path in [
            "/",
            *pages,
            "/password",
            f"/_nicegui/{nicegui_version}/static/nicegui.js",
            "/_nicegui_ws/socket.io/",
        ]:
            answer = client.get(path, headers={"Accept": "*/*"})
            assert (answer.status_code, answer.text) == (401, "log in first"), path
        answer = client.get("/c/main/topics?filter=a", headers={"Accept": "text/html"})
        assert answer.headers["location"] == "/login?next=%2Fc%2Fmain%2Ftopics%3Ffilter%3Da"


def test_pages_have_safe_headers(site: Site) -> None:
    with site.log_in("viewer") as client:
        headers = client.get("/c/main/cluster").headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "http" not in headers["content-security-policy"]  # nothing comes from another host
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"


def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(site: Site) -> None:
    with httpx.Client(base_url=site.url, headers={"Origin": site.url.rstrip("/")}) as client:
        answer = client.post("/login", data={"user": "viewer", "password": "correct horse battery"})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null"])
def test_posts_of_other_sites_are_refused(site: Site, origin: str | None) -> None:
    with site.log_in("admin") as client:
        del client.headers["origin"]
        headers = {} if origin is None else {"Origin": origin}
        assert client.post("/logout", data={"csrf": "x"}, headers=headers).status_code == 403
        assert client.post("/login", data={"user": "a", "password": "b"}, headers=headers).status_code == 403
        assert client.get("/c/main/cluster").status_code == 200  # still logged in


def test_a_logout_needs_the_token_of_its_session(site: Site) -> None:
    with site.log_in("viewer") as client:
        assert client.post("/logout", data={"csrf": "guessed"}).status_code == 403
        csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/password").text)
        assert csrf is not None
        token = client.cookies["ariane_console"]
        assert client.post("/logout", data={"csrf": csrf[1]}).status_code == 303
        client.cookies.set("ariane_console", token)
        assert client.get("/c/main/cluster", headers={"Accept": "*/*"}).status_code == 401


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://evil.example"}, {"Cookie": ""}])
def test_websockets_need_a_session_and_our_origin(site: Site, headers: dict[str, str]) -> None:
    host = site.url.removeprefix("http://").rstrip("/")
    with site.log_in("viewer") as client:
        cookie = f"ariane_console={client.cookies['ariane_console']}"
    own = {"Origin": f"http://{host}", "Cookie": cookie}
    if not headers:
        assert _handshake(host, own) == 101
        del own["Origin"]
    assert _handshake(host, own | headers) == 403


def _handshake(host: str, headers: dict[str, str]) -> int:
    name, port = host.split(":")
    lines = [
        "GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1", f"Host: {host}", "Upgrade: websocket",
        "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
        *(f"{key}: {value}" for key, value in headers.items()),
    ]  # fmt: skip
    with socket.create_connection((name, int(port)), timeout=10) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(connection.recv(64).split()[1])


def test_a_form_with_too_many_fields_is_no_login(site: Site) -> None:
    with httpx.Client(base_url=site.url, headers={"Origin": site.url.rstrip("/")}) as client:
        fields = {"user": "admin", "password": "correct horse battery"} | {f"more{number}": "x" for number in range(20)}
        assert client.post("/login", data=fields).status_code == 401


def test_a_login_does_not_lead_to_other_sites(site: Site) -> None:
    for target in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        with httpx.Client(base_url=site.url, headers={"Origin": site.url.rstrip("/")}) as client:
            data = {"user": "viewer", "password": "correct horse battery"}
            answer = client.post("/login", params={"next": target}, data=data)
            assert answer.headers["location"] == "/"


def test_the_first_start_prints_a_password_that_must_be_changed(cluster: Cluster, tmp_path: Path) -> None:
    site = start_site(tmp_path / "new", cluster.namesrv)
    try:
        assert site.process.stdout is not None
        password = ""
        while not password:
            line = site.process.stdout.readline()
            password = line.strip() if re.fullmatch(r"\s+[\w-]{20}\n", line) else ""
        assert (tmp_path / "new" / "users.json").stat().st_mode & 0o777 == 0o600
        assert password not in (tmp_path / "new" / "users.json").read_text()
        with site.log_in("admin", password) as client:
            assert client.get("/c/main/cluster").headers["location"] == "/password"
            csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/password").text)
            assert csrf is not None
            new = {"csrf": csrf[1], "old": password, "new": "another password", "again": "another password"}
            assert client.post("/password", data=new | {"csrf": "guessed"}).status_code == 403
            assert client.post("/password", data=new | {"new": "short", "again": "short"}).status_code == 400
            assert client.post("/password", data=new).status_code == 303
            assert client.get("/c/main/cluster").status_code == 200
        with httpx.Client(base_url=site.url, headers={"Origin": site.url.rstrip("/")}) as client:
            answers = [
                client.post(
                    "/login",
                    data={"user": f"admin{number}", "password": password},  # other names, and pretended addresses
                    headers={"X-Forwarded-For": f"192.0.2.{number}", "Forwarded": f"for=192.0.2.{number}"},
                )
                for number in range(FAILURES + 1)
            ]
            assert [one.status_code for one in answers] == [401] * FAILURES + [429]
            assert int(answers[-1].headers["retry-after"]) > 0
    finally:
        site.stop()


def test_guesses_are_limited_by_name_and_by_address() -> None:
    clock = ManualClock()
    guesses = Guesses(clock)
    for number in range(FAILURES):
        assert guesses.wait("name a", f"address {number}") == 0
        guesses.failed("name a", f"address {number}")
    assert guesses.wait("name a", "address new") == WINDOW
    assert guesses.wait("name b", "address 0") == 0
    clock.advance(WINDOW)
    assert guesses.wait("name a") == 0


def test_sessions_end_with_time_password_and_user(tmp_path: Path) -> None:
    clock, users = ManualClock(), Users(tmp_path / "users.json")
    sessions = Sessions(users, clock, hours=1)
    users.add("root", Role.ADMIN)
    users.add("anna", Role.VIEWER)

    def opened() -> str:
        user = users.get("anna")
        assert user is not None
        return sessions.open(user)

    timed = opened()
    clock.advance(3599)
    assert sessions.get(timed) is not None
    clock.advance(1)
    assert sessions.get(timed) is None
    changed = opened()
    users.set_password("anna", "a new password")
    assert sessions.get(changed) is None
    promoted = opened()
    users.set_role("anna", Role.OPERATOR)
    found = sessions.get(promoted)
    assert found is not None
    assert found[1].role is Role.OPERATOR  # at once
    users.remove("anna")
    assert sessions.get(promoted) is None


def test_the_last_administrator_stays(tmp_path: Path) -> None:
    users = Users(tmp_path / "users.json")
    users.add("root", Role.ADMIN)
    with pytest.raises(UserError, match="only administrator"):
        users.remove("root")
    with pytest.raises(UserError, match="only administrator"):
        users.set_role("root", Role.VIEWER)


def test_a_file_of_users_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    Users(path).add("root", Role.ADMIN)
    assert [user.name for user in Users(path).all()] == ["root"]
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        Users(path)
    path.chmod(0o600)
    path.write_text('{"users": {"a": {"role": "god"}}}')
    with pytest.raises(ConfigError, match="not a file of users"):
        Users(path)


def test_passwords_are_salted() -> None:
    one, two = hash_password("secret word"), hash_password("secret word")
    assert one != two
    assert is_password("secret word", one)
    assert not is_password("secret wore", one)
    assert not is_password("x", "broken")


def test_the_catalogues_have_the_same_keys_and_places() -> None:
    english, chinese = catalogue("en"), catalogue("zh")
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert set(re.findall(r"{(\w+)}", text)) == set(re.findall(r"{(\w+)}", chinese[key])), key
