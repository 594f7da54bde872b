"""The business of the tests: accounts, and the transfers that were booked on them."""

from sqlalchemy import BigInteger, Column, Engine, Integer, MetaData, String, Table, func, insert, select, update
from sqlalchemy.orm import Session

bank = MetaData()
account = Table("account", bank, Column("name", String(40), primary_key=True), Column("balance", BigInteger))
booking = Table(
    "booking",
    bank,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("what", String(80)),
)


def book(session: Session, what: str) -> None:
    """Do something that must be done once; a second time shows."""
    session.execute(insert(booking), {"what": what})


def bookings(engine: Engine) -> list[str]:
    """What was booked, in order."""
    with engine.connect() as connection:
        return list(connection.execute(select(booking.c.what).order_by(booking.c.number)).scalars())


def open_accounts(engine: Engine, names: list[str], balance: int) -> None:
    """Give each account its money."""
    with engine.begin() as connection:
        connection.execute(insert(account), [{"name": name, "balance": balance} for name in names])


def add(session: Session, name: str, amount: int) -> None:
    """Change a balance."""
    changed = session.execute(update(account).where(account.c.name == name).values(balance=account.c.balance + amount))
    assert changed.rowcount == 1  # type: ignore[attr-defined]


def total(engine: Engine) -> int:
    """The money of all accounts."""
    with engine.connect() as connection:
        return int(connection.execute(select(func.sum(account.c.balance))).scalar_one())
