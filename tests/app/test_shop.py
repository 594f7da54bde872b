"""The example shop, started with its one command, and the types of its code."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.peers import free_port

pytestmark = pytest.mark.slow  # starts the shop, and type checkers

EXAMPLES = Path(__file__).parents[2] / "examples" / "shop"
SOURCES = Path(__file__).parents[2] / "src"
PATIENCE = 120.0


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("shop")
    port = free_port()
    command = [
        sys.executable, "-m", "shop", "--port", str(port), "--store", str(folder / "store"),
        "--namesrv-port", str(free_port()), "--broker-port", str(free_port(-2, 1)),
    ]  # fmt: skip
    paths = os.pathsep.join([str(EXAMPLES), str(SOURCES)])
    world = {**os.environ, "PYTHONPATH": paths, "SHOP_DATABASE": str(folder / "shop.db")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=world, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            until(lambda: answers(client, process, folder / "log"), lambda answered: answered)
            yield client
    finally:
        process.terminate()
        process.wait(PATIENCE)


def answers(client: httpx.Client, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        return client.get("/openapi.json").status_code == 200
    except httpx.TransportError:
        return False


def until(look: Callable[[], Any], fine: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not fine(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def history(shop: httpx.Client, order: str) -> list[str]:
    steps: list[str] = shop.get(f"/orders/{order}").json()["history"]
    return steps


def test_an_order_is_placed_reserved_and_shipped_in_order(shop: httpx.Client) -> None:
    order = shop.post("/orders", json={"item": "tea", "amount": 2}).json()["id"]
    until(lambda: history(shop, order), lambda steps: "reserved" in steps)
    for step in ("packed", "shipped"):
        assert shop.post(f"/orders/{order}/{step}").status_code == 202
    steps = until(lambda: history(shop, order), lambda steps: len(steps) == 4)
    assert sorted(steps[:2]) == ["placed", "reserved"]
    assert steps[2:] == ["packed", "shipped"]


def test_an_order_out_of_stock_is_rejected_after_its_tries(shop: httpx.Client) -> None:
    order = shop.post("/orders", json={"item": "cup", "amount": 3}).json()["id"]
    until(lambda: history(shop, order), lambda steps: sorted(steps) == ["placed", "rejected"])


def test_a_price_comes_by_request_and_reply(shop: httpx.Client) -> None:
    assert shop.get("/prices/tea", params={"amount": 3}).json() == {"item": "tea", "total": 10.5}


def test_an_unknown_order_is_not_there(shop: httpx.Client) -> None:
    assert shop.get("/orders/none").status_code == 404


@pytest.mark.parametrize("checker", [["mypy", "--strict"], ["pyright"]], ids=["mypy", "pyright"])
def test_the_types_of_the_example_are_right(checker: list[str], tmp_path: Path) -> None:
    if checker[0] == "pyright":
        shutil.copytree(EXAMPLES / "shop", tmp_path / "shop")
        settings = {"include": ["shop"], "extraPaths": [str(SOURCES)], "typeCheckingMode": "strict"}
        (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    else:
        command = [sys.executable, "-m", *checker, "--cache-dir", str(tmp_path), str(EXAMPLES / "shop")]
    world = {**os.environ, "MYPYPATH": os.pathsep.join([str(SOURCES), str(EXAMPLES)])}
    ran = subprocess.run(command, capture_output=True, text=True, env=world, cwd=tmp_path, timeout=280, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "No source files" not in ran.stdout + ran.stderr
