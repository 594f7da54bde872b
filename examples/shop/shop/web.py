"""The web service: HTTP in front, messages behind."""

import uuid

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

from ariane.app import TransactionState
from shop import database
from shop.messaging import app, tell
from shop.payloads import Order, Price, PriceRequest, Step

web = FastAPI(title="shop", lifespan=app.lifespan)


class Wish(BaseModel):
    """What a customer asks for."""

    item: str
    amount: int = Field(default=1, gt=0)


class OrderState(BaseModel):
    """An order as the customer sees it."""

    id: str
    history: list[str]


@web.post("/orders", status_code=201)
async def place_order(wish: Wish) -> OrderState:
    """Place an order: database and message agree, whatever fails in between."""
    order = Order(id=uuid.uuid4().hex, item=wish.item, amount=wish.amount)
    placed = await app.send_in_transaction("orders", order, keys=order.id)
    if placed.state is not TransactionState.COMMIT:
        raise HTTPException(503, "the order was not placed: try again")
    await tell(order.id, "placed")
    return OrderState(id=order.id, history=[])


@web.get("/orders/{order_id}")
def get_order(order_id: str) -> OrderState:
    """An order's history."""
    if not database.is_placed(order_id):
        raise HTTPException(404, "there is no such order")
    return OrderState(id=order_id, history=database.history(order_id))


@web.post("/orders/{order_id}/{step}", status_code=202)
async def advance_order(order_id: str, step: Step) -> None:
    """Pack or ship an order."""
    await tell(order_id, step)


@web.get("/prices/{item}")
async def get_price(item: str, amount: int = 1) -> Price:
    """Ask whoever knows the prices, by request and reply."""
    return await app.request("price-requests", PriceRequest(item=item, amount=amount), Price, timeout=10)
