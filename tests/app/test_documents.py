"""The AsyncAPI document: valid by the schema of AsyncAPI 3.0, complete, and readable as a page."""

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from pydantic import BaseModel

from ariane.app import Ariane, Context, ReceivedMessage, TransactionState
from ariane.app.document.asyncapi import describe_application, to_json_text
from ariane.app.document.page import to_page
from tests.app.payloads import Invoice, Order, Parcel

SCHEMA = Path(__file__).parents[1] / "fixtures" / "asyncapi-3.0.0.json.gz"


class Line(msgspec.Struct):
    item: str
    parts: list["Line"] = []


class Basket(BaseModel):
    orders: list[Order]
    note: str | None = None


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    app = Ariane(
        "shop",
        clusters={"eu": {"name_servers": "eu:9876"}},
        bindings={
            "enrich-in-0": {"destination": "orders,returns", "group": "enrich"},
            "enrich-out-0": {"destination": "enriched"},
            "tick-out-0": {"destination": "ticks:new", "cluster": "eu"},
        },
    )

    @app.publisher("invoices:new", cluster="eu")
    @app.listener("orders", group="stock", tags="paid || refunded", orderly=True)
    async def reserve(order: Order, context: Context) -> Invoice:
        """Reserve <what> was ordered."""
        return Invoice(order.id, 1.0)

    @app.listener("prices", group="prices", reply=True, sql="amount > 3")
    def price(basket: Basket) -> Parcel:
        return Parcel(1, 1.0)

    @app.listener("raw", group="raw", broadcast=True)
    def raw(message: ReceivedMessage) -> None: ...

    @app.listener("lines", group="lines", batch=10, cluster="eu")
    def lines(lines: list[Line]) -> None: ...

    @app.transaction_listener("tx")
    def place(text: dict[str, int]) -> TransactionState:
        return TransactionState.COMMIT

    @app.function
    def enrich(order: Order) -> Order:
        return order

    @app.function
    async def tick() -> str:
        return "tick"

    return describe_application(app)


def test_the_document_is_valid_by_the_schema_of_asyncapi(document: dict[str, Any]) -> None:
    schema = json.loads(gzip.decompress(SCHEMA.read_bytes()))
    errors = list(jsonschema.Draft7Validator(schema).iter_errors(json.loads(to_json_text(document))))
    assert not errors, [f"{list(error.absolute_path)}: {error.message}" for error in errors]


def test_every_reference_of_the_document_leads_somewhere(document: dict[str, Any]) -> None:
    def look(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                at: Any = document
                for part in value["$ref"].removeprefix("#/").split("/"):
                    at = at[part]
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(document)


def test_the_document_names_all_that_is_sent_and_received(document: dict[str, Any]) -> None:
    operations = {
        name: (operation["action"], operation["channel"]["$ref"].rsplit("/", 1)[1])
        for name, operation in document["operations"].items()
    }
    assert operations == {
        "reserve": ("receive", "orders"),
        "reserve-to-invoices": ("send", "invoices"),
        "price": ("receive", "prices"),
        "raw": ("receive", "raw"),
        "lines": ("receive", "lines"),
        "enrich-orders": ("receive", "orders"),
        "enrich-returns": ("receive", "returns"),
        "enrich-to-enriched": ("send", "enriched"),
        "tick-to-ticks": ("send", "ticks"),
    }
    assert document["operations"]["reserve"]["x-tags"] == "paid || refunded"
    assert document["operations"]["price"]["reply"]["channel"]["$ref"] == "#/channels/prices-reply"
    assert document["components"]["schemas"]["Order"]["required"] == ["id", "item"]
    assert set(document["servers"]) == {"main", "eu"}


def test_the_page_escapes_what_users_write(document: dict[str, Any]) -> None:
    page = to_page(document)
    assert "Reserve &lt;what&gt; was ordered." in page
    assert "<what>" not in page
    assert "src=" not in page
