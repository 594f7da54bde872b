"""The shop's own data: orders, their history, and the stock, in SQLite."""

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from shop.payloads import Order, Step

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT NOT NULL, amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS history (number INTEGER PRIMARY KEY, order_id TEXT NOT NULL, step TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, left_over INTEGER NOT NULL, price REAL NOT NULL);
CREATE TABLE IF NOT EXISTS reserved (order_id TEXT PRIMARY KEY);
INSERT OR IGNORE INTO stock VALUES ('tea', 100, 3.5), ('cup', 2, 8.0);
"""


class OutOfStock(Exception):
    """There are not enough pieces left."""


@contextmanager
def transaction() -> Generator[sqlite3.Connection, None, None]:
    """A connection whose changes are all made, or none of them."""
    connection = sqlite3.connect(os.environ.get("SHOP_DATABASE", "shop.db"), timeout=30)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def create() -> None:
    """Make the tables unless they are there."""
    with transaction() as connection:
        connection.executescript(SCHEMA)


def place(order: Order) -> None:
    """Store an order."""
    with transaction() as connection:
        connection.execute("INSERT INTO orders VALUES (?, ?, ?)", (order.id, order.item, order.amount))


def is_placed(order_id: str) -> bool:
    """Whether an order was stored."""
    with transaction() as connection:
        return connection.execute("SELECT 1 FROM orders WHERE id = ?", (order_id,)).fetchone() is not None


def reserve(order: Order) -> None:
    """Take an order's pieces from the stock; once, however often the message comes."""
    with transaction() as connection:
        if connection.execute("SELECT 1 FROM reserved WHERE order_id = ?", (order.id,)).fetchone():
            return
        taken = connection.execute(
            "UPDATE stock SET left_over = left_over - ? WHERE item = ? AND left_over >= ?",
            (order.amount, order.item, order.amount),
        )
        if taken.rowcount == 0:
            raise OutOfStock(f"not enough of {order.item}")
        connection.execute("INSERT INTO reserved VALUES (?)", (order.id,))


def note(order_id: str, step: Step) -> None:
    """Add to an order's history."""
    with transaction() as connection:
        connection.execute("INSERT INTO history (order_id, step) VALUES (?, ?)", (order_id, step))


def history(order_id: str) -> list[str]:
    """The steps of an order, the first one first."""
    with transaction() as connection:
        rows = connection.execute("SELECT step FROM history WHERE order_id = ? ORDER BY number", (order_id,))
        return [str(step) for (step,) in rows]


def price_of(item: str) -> float | None:
    """What one piece costs; None for an unknown item."""
    with transaction() as connection:
        found = connection.execute("SELECT price FROM stock WHERE item = ?", (item,)).fetchone()
        return None if found is None else float(found[0])
