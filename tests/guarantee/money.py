"""Money transfers while everything fails: `python -m tests.guarantee.money --transfers 20000`.

A sender takes money from one account and stages a message in the same transaction; a consumer gives it to the other
account. Sender, consumers, resenders, database, cache and broker are processes that are killed at random, and the
broker loses its messages. At the end every transfer was booked exactly once, the sum is right, and what was not booked
was refused by the bank, marked for a person, and that person was told.
"""

import argparse
import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from email.message import Message as Mailed
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message as MailHandler
from sqlalchemy import create_engine, func, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from ariane import Admin, ConsumeFrom, PushConsumer, ReceivedMessage
from ariane.guarantee import Guarantee, Idempotence, Mail, Rejected, StubStatus
from ariane.guarantee.tables import message_stub
from tests.guarantee.bank import account, add, bank, book, booking, open_accounts, total
from tests.guarantee.servers import Broker, MariaDB, NameServer, Postgres, Redis, Server
from tests.peers import free_port, until

TOPIC, GROUP = "transfers", "bank"
ACCOUNTS = [f"account-{number}" for number in range(20)]
BLOCKED = "blocked"
BALANCE = 1_000_000
LEASE = 2.0


@dataclass(frozen=True)
class Plan:
    """What all processes know."""

    database: str
    name_servers: str
    cache: str | None
    mail_port: int
    transfers: int
    documents: bool = False
    seed: int = 0

    def guarantee(self, *, resend: bool, notify: bool = False) -> Guarantee:
        mail = Mail(host="127.0.0.1", port=self.mail_port, sender="mq@example.com", to=["ops@example.com"])
        return Guarantee(
            self.database,
            cache=self.cache,
            name_servers=self.name_servers,
            resend=resend,
            consumers={TOPIC: GROUP},
            idempotence=Idempotence.DOCUMENTS if self.documents else Idempotence.LEASE,
            lease=LEASE,
            max_reconsume_times=1000,
            max_sends=2 if self.documents else 1000,  # what it loses ends with a person soon
            resend_after=1.0,
            max_resend_after=4.0,
            poll_interval=0.3,
            claim=3.0,
            log_patience=2.0 if self.documents else 6.0,
            notify=[mail] if notify else [],
        )


# The processes


def send(plan: Plan) -> None:
    """Make the transfers that were not made yet, one after the other."""
    chance = random.Random()
    with plan.guarantee(resend=False) as guarantee:
        number: int | None = None
        while number is None or number < plan.transfers:
            try:
                with Session(guarantee.engine) as session, session.begin():
                    if number is None:
                        last = session.execute(select(func.max(message_stub.c.message_id))).scalar()
                        number = 0 if last is None else int(last.removeprefix("t")) + 1
                        continue
                    source, target = chance.sample(ACCOUNTS, 2)
                    target = BLOCKED if chance.random() < 0.01 else target
                    amount = chance.randrange(1, 100)
                    add(session, source, -amount)
                    guarantee.stage(session, TOPIC, {"to": target, "amount": amount}, message_id=f"t{number:09}")
                number += 1
            except IntegrityError:  # the commit went through, and the answer was lost
                number = None
            except SQLAlchemyError:
                number = None
                time.sleep(0.1)


def consume(plan: Plan) -> None:
    """Give the money to its new owner, and fail at that now and then."""
    chance = random.Random()
    guarantee = plan.guarantee(resend=False)

    def credit(message: ReceivedMessage, session: Session) -> None:
        transfer = json.loads(message.body)
        if transfer["to"] == BLOCKED:
            raise Rejected("the account is blocked")
        add(session, transfer["to"], transfer["amount"])
        book(session, message.properties["GUARANTEE_ID"])
        time.sleep(0.01)
        if chance.random() < 0.01:
            raise ValueError("the bank stumbles")
        if chance.random() < 0.002:
            time.sleep(LEASE + 1)  # a zombie

    with PushConsumer(
        GROUP, TOPIC, guarantee.listener(credit), name_servers=plan.name_servers, threads=6,
        consume_from=ConsumeFrom.FIRST, persist_interval=0.3, rebalance_interval=1.0, error_pause=0.5,
    ):  # fmt: skip
        threading.Event().wait()


def resend(plan: Plan) -> None:
    """Resend and notify."""
    with plan.guarantee(resend=True, notify=True):
        threading.Event().wait()


ROLES: dict[str, Callable[[Plan], None]] = {"send": send, "consume": consume, "resend": resend}


# The machines


class Mailbox(MailHandler):
    """Counts how many mails told of each message."""

    def __init__(self) -> None:
        super().__init__()
        self.told: Counter[str] = Counter()

    def handle_message(self, message: Mailed) -> None:
        self.told.update({word for word in str(message.get_payload()).split() if word.startswith("t0")})


class Worker(Server):
    """A process of the application."""

    def __init__(self, role: str, plan: Plan) -> None:
        super().__init__(role)
        self.cwd = Path.cwd()  # where the module of the processes is found
        self._role = role
        self._plan = plan

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.guarantee.money", "--role", self._role, json.dumps(asdict(self._plan))]

    def ready(self) -> bool:
        return True


@dataclass
class Machines:
    """Everything that runs, and how it fails."""

    plan: Plan
    database: Server | None
    redis: Redis | None
    broker: Broker
    sender: Worker
    consumers: list[Worker]
    resenders: list[Worker]
    chance: random.Random
    faults: Counter[str] = field(default_factory=Counter)

    def kinds(self) -> dict[str, Callable[[], None]]:
        """The faults, by name."""
        found = {
            "sender killed": lambda: self._restart(self.sender),
            "consumer killed": lambda: self._restart(self.chance.choice(self.consumers)),
            "resender killed": lambda: self._restart(self.chance.choice(self.resenders)),
            "broker killed": lambda: self._restart(self.broker),
            "messages lost": self._lose_messages,
        }
        if self.redis is not None:
            found["cache flushed"] = self._flush
            found["cache killed"] = lambda: self._restart(self.redis)
        if self.database is not None:
            found["database restarted"] = self._restart_database
        return found

    def fail(self, kind: str) -> None:
        """Let one thing happen."""
        self.faults[kind] += 1
        self.kinds()[kind]()

    def _restart(self, server: Server | None) -> None:
        assert server is not None
        server.kill()
        server.start()

    def _lose_messages(self) -> None:
        self.broker.kill()
        self.broker.lose_messages()
        self.broker.start()

    def _flush(self) -> None:
        import redis

        assert self.redis is not None
        redis.Redis.from_url(self.redis.url).flushall()

    def _restart_database(self) -> None:
        assert self.database is not None
        if isinstance(self.database, Postgres):  # an immediate shutdown is a crash; a kill leaves children behind
            self.database.stop(self.chance.choice([signal.SIGINT, signal.SIGQUIT]))
            self.database.start()
        else:
            self._restart(self.database)


@dataclass
class Verdict:
    """What is wrong at the end; `faults` happened before."""

    wrong: list[str]
    faults: Counter[str]
    booked: int
    refused: int
    seconds: float
    most_sends: int


@contextmanager
def running(
    kind: str, transfers: int, seed: int, folder: Path, *, cache: bool, documents: bool
) -> Iterator[tuple[Machines, Mailbox]]:
    """Start everything, with money in the accounts."""
    with ExitStack() as stack:
        names = stack.enter_context(NameServer())
        broker = stack.enter_context(Broker(names.address))
        redis = stack.enter_context(Redis()) if cache else None
        database: Server | None = None
        if kind == "sqlite":
            url = f"sqlite:///{folder}/bank.db"
        elif kind == "postgresql":
            database = stack.enter_context(Postgres())
            url = f"postgresql+psycopg://{database.server}"
        else:
            database = stack.enter_context(MariaDB())
            url = f"mariadb+pymysql://{database.server}"
        box = Mailbox()
        controller = Controller(box, hostname="127.0.0.1", port=free_port())
        controller.start()
        stack.callback(controller.stop)
        plan = Plan(url, names.address, None if redis is None else redis.url, controller.port, transfers, documents)
        guarantee = plan.guarantee(resend=False)
        guarantee.migrate()
        bank.create_all(guarantee.engine)
        open_accounts(guarantee.engine, [*ACCOUNTS, BLOCKED], BALANCE)
        guarantee.close()
        with Admin(name_servers=names.address) as admin:
            until(lambda: admin.masters(), 60, "the broker's registration")
            admin.create_topic(TOPIC, queues=4)
        workers = [Worker(role, plan) for role in ("send", "consume", "consume", "resend", "resend")]
        for worker in workers:
            stack.enter_context(worker)
        sender, first, second, third, fourth = workers
        chance = random.Random(seed)
        yield Machines(plan, database, redis, broker, sender, [first, second], [third, fourth], chance), box


def transfer(
    kind: str,
    transfers: int,
    seed: int,
    folder: Path,
    *,
    cache: bool = True,
    documents: bool = False,
    only: str | None = None,
    rounds: int = 1,
    patience: float = 240.0,
    tell: Callable[[str], None] = lambda text: None,
) -> Verdict:
    """Make the transfers while each fault happens `rounds` times, in random order, or only one of them."""
    started = time.monotonic()
    with running(kind, transfers, seed, folder, cache=cache, documents=documents) as (machines, box):
        faults = [name for name in machines.kinds() if only in (None, name)] * rounds
        machines.chance.shuffle(faults)
        engine = create_engine(machines.plan.database, pool_pre_ping=True)

        def count(*conditions: Any) -> int:
            try:
                with engine.connect() as connection:
                    found = connection.execute(select(func.count()).select_from(message_stub).where(*conditions))
                    return int(found.scalar_one())
            except SQLAlchemyError:
                return -1  # the database restarts

        settled = message_stub.c.status != StubStatus.UNCONFIRMED
        for number, fault in enumerate(faults):
            # Faults are spread over the work: each waits until so much of it is done.
            share = transfers * (number + 1) // (len(faults) + 1)
            until(lambda share=share: count(settled) >= share, patience, f"{share} transfers")  # type: ignore[misc]
            tell(f"{time.monotonic() - started:6.1f} s  {count(settled):6} done  {fault}")
            machines.fail(fault)
        until(lambda: count() == transfers, patience, "the sender")
        open_stubs = (message_stub.c.status == StubStatus.UNCONFIRMED, message_stub.c.attention.is_(None))
        until(lambda: count(*open_stubs) == 0, patience, "every transfer to be settled")
        untold = (message_stub.c.attention.is_not(None), message_stub.c.notified.is_(None))
        until(lambda: count(*untold) == 0, patience, "the person to be told")
        for worker in (*machines.consumers, *machines.resenders, machines.sender):
            worker.kill()
        wrong = _judge(engine, transfers, box, sum(machines.faults.values()))
        with engine.connect() as connection:
            booked = int(connection.execute(select(func.count()).select_from(booking)).scalar_one())
            refused = count(message_stub.c.attention.is_not(None))
            most = int(connection.execute(select(func.max(message_stub.c.count))).scalar_one())
        engine.dispose()
        return Verdict(wrong, machines.faults, booked, refused, time.monotonic() - started, most)


def _judge(engine: Any, transfers: int, box: Mailbox, faults: int) -> list[str]:
    wrong = []
    with Session(engine) as session:
        stubs = session.execute(
            select(message_stub.c.message_id, message_stub.c.status, message_stub.c.content, message_stub.c.attention)
        ).all()
        booked = Counter(session.execute(select(booking.c.what)).scalars())
        blocked = session.execute(select(account.c.balance).where(account.c.name == BLOCKED)).scalar_one()
    missing = 0
    for message_id, status, content, attention in stubs:
        refused = json.loads(bytes(content))["to"] == BLOCKED
        expected = 0 if refused else 1
        if booked[message_id] != expected:
            wrong.append(f"{message_id} was booked {booked[message_id]} times, not {expected}")
        if (status == StubStatus.CONFIRMED) == refused:
            wrong.append(f"{message_id} has status {status}: {attention}")
        if status != StubStatus.CONFIRMED:
            missing += json.loads(bytes(content))["amount"]
            # A crash after the mail and before its record repeats the mail; nothing else may.
            if not 1 <= box.told[message_id] <= 1 + faults:
                wrong.append(f"{message_id} was told of {box.told[message_id]} times")
    if len(stubs) != transfers or sum(booked.values()) > transfers:
        wrong.append(f"{len(stubs)} stubs and {sum(booked.values())} bookings of {transfers} transfers")
    if blocked != BALANCE:
        wrong.append(f"the blocked account has {blocked}")
    if (found := total(engine)) + missing != (len(ACCOUNTS) + 1) * BALANCE:
        wrong.append(f"{found} in the accounts and {missing} on the way do not make {(len(ACCOUNTS) + 1) * BALANCE}")
    return wrong


def main() -> None:
    """Run a role, or everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", choices=ROLES)
    parser.add_argument("plan", nargs="?")
    parser.add_argument("--database", default="postgresql", choices=["postgresql", "mariadb", "sqlite"])
    parser.add_argument("--transfers", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--no-cache", action="store_true")
    given = parser.parse_args()
    if given.role:
        ROLES[given.role](Plan(**json.loads(given.plan)))
        return
    import tempfile

    print(f"{given.transfers} transfers on {given.database}, seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        verdict = transfer(
            given.database, given.transfers, given.seed, Path(folder), cache=not given.no_cache, rounds=given.rounds,
            patience=900.0, tell=lambda text: print(text, flush=True),
        )  # fmt: skip
    print(
        f"{verdict.booked} booked once, {verdict.refused} refused and told, {sum(verdict.faults.values())} faults, "
        f"at most {verdict.most_sends} sends of one message, {verdict.seconds:.0f} s"
    )
    if verdict.wrong:
        sys.exit("\n".join(verdict.wrong[:50]))


if __name__ == "__main__":
    main()
