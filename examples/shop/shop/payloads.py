"""What the shop's messages say."""

from typing import Literal

from pydantic import BaseModel, Field

Step = Literal["placed", "reserved", "rejected", "packed", "shipped"]


class Order(BaseModel):
    """An order that a customer placed."""

    id: str
    item: str
    amount: int = Field(gt=0)


class OrderEvent(BaseModel):
    """Something that happened to an order."""

    order_id: str
    step: Step


class PriceRequest(BaseModel):
    """The question what some pieces of an item cost."""

    item: str
    amount: int = 1


class Price(BaseModel):
    """The answer to it."""

    item: str
    total: float
