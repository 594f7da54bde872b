"""The shop's messages: who sends them, who listens, and what happens when something fails."""

from ariane.app import Ariane, Context, DeadLetter, Retry, TransactionState
from shop import database
from shop.payloads import Order, OrderEvent, Price, PriceRequest, Step

app = Ariane("shop")
LAST_TRY = 2


@app.on_start
def prepare() -> None:
    """Make the tables before the first message comes."""
    database.create()


@app.transaction_listener("shop-orders")
class Orders:
    """An order is a message exactly if it is in the database."""

    def execute(self, order: Order) -> TransactionState:
        """Store the order; the message becomes visible after that."""
        database.place(order)
        return TransactionState.COMMIT

    def check(self, order: Order) -> TransactionState:
        """Answer a broker that did not hear how it ended, after a crash for example."""
        return TransactionState.COMMIT if database.is_placed(order.id) else TransactionState.ROLLBACK


@app.listener("orders", group="shop-stock", start_at="first", max_retries=LAST_TRY, retry_delay=1)
async def reserve(order: Order, context: Context) -> None:
    """Reserve an order's pieces; try again when there are none, and give up in the end."""
    try:
        database.reserve(order)
    except database.OutOfStock as error:
        if context.reconsume_times < LAST_TRY:
            raise Retry(str(error)) from error
        await tell(order.id, "rejected")
        raise DeadLetter(str(error)) from error
    await tell(order.id, "reserved")


async def tell(order_id: str, step: Step) -> None:
    """Send an event; those of one order stay in order."""
    event = OrderEvent(order_id=order_id, step=step)
    await app.send("order-events", event, keys=order_id, hash_key=order_id)


@app.listener("order-events", group="shop-history", start_at="first", orderly=True)
def record(event: OrderEvent) -> None:
    """Write the history, in order."""
    database.note(event.order_id, event.step)


@app.listener("price-requests", group="shop-prices", reply=True)
def price(request: PriceRequest) -> Price:
    """Answer what something costs."""
    found = database.price_of(request.item)
    return Price(item=request.item, total=0.0 if found is None else found * request.amount)
