"""Move money between two banks' databases: python examples/bank_transfer.py postgresql://… postgresql://…

The first bank debits and decides; the message becomes visible with its commit, and the broker asks again when it did
not hear the outcome. The second bank credits each transfer once, however often the message is delivered.
"""

import json
import sys
import threading
from collections.abc import Sequence
from typing import Any

import psycopg

from ariane import (
    ConsumeFrom,
    ConsumeStatus,
    Message,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)

TABLES = """
CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, balance integer NOT NULL CHECK (balance >= 0));
CREATE TABLE IF NOT EXISTS transfer (id text PRIMARY KEY)
"""


class Debit:
    """The local transaction of the bank that pays."""

    def __init__(self, database: str) -> None:
        self.database = database

    def execute(self, message: Message, result: Any, argument: Any) -> TransactionState:
        """Debit the account and note the transfer in one transaction."""
        transfer = json.loads(message.body)
        try:
            with psycopg.connect(self.database) as bank:
                bank.execute("UPDATE account SET balance = balance - %(amount)s WHERE name = %(payer)s", transfer)
                bank.execute("INSERT INTO transfer VALUES (%(id)s)", transfer)
        except psycopg.errors.CheckViolation:
            return TransactionState.ROLLBACK  # not enough money
        return TransactionState.COMMIT

    def check(self, message: ReceivedMessage) -> TransactionState:
        """Answer from the database, which all processes share: is the transfer there?"""
        with psycopg.connect(self.database) as bank:
            found = bank.execute("SELECT 1 FROM transfer WHERE id = %(id)s", json.loads(message.body)).fetchone()
        return TransactionState.COMMIT if found else TransactionState.ROLLBACK


class Credit:
    """The bank that receives: the transfer's id makes a second delivery harmless."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.done = threading.Semaphore(0)

    def __call__(self, messages: Sequence[ReceivedMessage]) -> ConsumeStatus:
        """Credit a transfer that is new."""
        for message in messages:
            transfer = json.loads(message.body)
            with psycopg.connect(self.database) as bank:
                new = bank.execute("INSERT INTO transfer VALUES (%(id)s) ON CONFLICT DO NOTHING", transfer).rowcount
                if new:
                    credit = "UPDATE account SET balance = balance + %(amount)s WHERE name = %(payee)s"
                    bank.execute(credit, transfer)
            self.done.release()
        return ConsumeStatus.CONSUME_SUCCESS


def balance(database: str, name: str) -> Any:
    """Read an account."""
    with psycopg.connect(database) as bank:
        row = bank.execute("SELECT balance FROM account WHERE name = %s", (name,)).fetchone()
    return row[0] if row else None


def main(payer: str, payee: str) -> None:
    """Make three transfers: two succeed, one is too much."""
    for database, name, money in ((payer, "ann", 100), (payee, "bob", 0)):
        with psycopg.connect(database) as bank:
            bank.execute(TABLES)
            bank.execute("INSERT INTO account VALUES (%s, %s)", (name, money))
    credit = Credit(payee)
    options: dict[str, Any] = {"consume_from": ConsumeFrom.FIRST, "rebalance_interval": 1}
    with (
        TransactionProducer("bank-a", Debit(payer)) as producer,
        PushConsumer("bank-b", "transfers", credit, **options),
    ):
        for number, amount in enumerate((30, 500, 20)):
            transfer = {"id": f"t-{number}", "payer": "ann", "payee": "bob", "amount": amount}
            result = producer.send_in_transaction(
                Message("transfers", json.dumps(transfer).encode(), keys=f"t-{number}")
            )
            print(amount, result.state.name)
        for _ in range(2):
            if not credit.done.acquire(timeout=120):
                raise SystemExit("a transfer did not arrive")
    print("ann", balance(payer, "ann"), "bob", balance(payee, "bob"))


if __name__ == "__main__":
    main(*sys.argv[1:])
