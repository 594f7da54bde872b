"""The outbox: a message is sent exactly if the transaction that wrote it commits, though the process dies."""

import json
import tempfile
import threading
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from ariane import ConsumeFrom, PushConsumer
from ariane.guarantee import Guarantee, GuaranteeOptions

with tempfile.TemporaryDirectory() as folder:
    database = f"sqlite:///{folder}/shop.db"
    consumers = {"shipments": "post"}  # which group does the messages of a topic
    outbox = GuaranteeOptions(consumers=consumers, resend_after=1, poll_interval=0.2)

    # A process that commits two orders, rolls one back, and dies before it sends anything.
    first = Guarantee(database, options=outbox)
    first.migrate()
    with first.engine.begin() as connection:
        connection.execute(text("CREATE TABLE shop_order (id INTEGER PRIMARY KEY, shipped INTEGER DEFAULT 0)"))
    for order in (1, 2, 3):
        with Session(first.engine) as session:
            session.execute(text("INSERT INTO shop_order (id) VALUES (:id)"), {"id": order})
            first.stage(session, "shipments", {"id": order})
            if order == 2:
                session.rollback()  # neither the order nor its message
            else:
                session.commit()
    first.engine.dispose()
    print("committed and not sent: 2 messages")

    # The next process: its resender finds the messages in the outbox.
    second = Guarantee(database, options=outbox)
    shipped = threading.Semaphore(0)

    def ship(message: Any, session: Session) -> None:
        """Mark the order in the transaction that also marks the message as done."""
        session.execute(text("UPDATE shop_order SET shipped = shipped + 1 WHERE id = :id"), json.loads(message.body))
        shipped.release()

    options = {"consume_from": ConsumeFrom.FIRST, "rebalance_interval": 1}
    with second, PushConsumer("post", "shipments", second.listener(ship), **options):
        for _ in range(2):
            if not shipped.acquire(timeout=120):
                raise SystemExit("an order was not shipped")
    with second.engine.connect() as connection:
        print("orders and shipments:", [tuple(row) for row in connection.execute(text("SELECT * FROM shop_order"))])
    second.engine.dispose()
