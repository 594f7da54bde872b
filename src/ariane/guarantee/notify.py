"""Telling a person about messages that only a person can settle."""

import asyncio
import hashlib
import inspect
import smtplib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate

from ariane.guarantee.stub import Stub

SHOWN = 50  # stubs that a mail lists


@dataclass(frozen=True, slots=True)
class Notice:
    """Stubs that wait for a person: over the limit of sends, dead letters, refused by brokers."""

    stubs: tuple[Stub, ...]

    @property
    def notice_id(self) -> str:
        """The same for the same stubs: a notice that was repeated after a crash is known by it."""
        ids = sorted(f"{stub.consumer_group}/{stub.message_id}" for stub in self.stubs)
        return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:32]

    @property
    def subject(self) -> str:
        """One line."""
        first = self.stubs[0]
        more = f" and {len(self.stubs) - 1} more" if len(self.stubs) > 1 else ""
        return f"Message {first.message_id} of topic {first.topic} needs a decision{more}"

    @property
    def text(self) -> str:
        """What happened and what to do."""
        lines = ["These messages were not confirmed by their consumer group and are not resent any more:", ""]
        for stub in self.stubs[:SHOWN]:
            lines.append(f"{stub.message_id}  topic {stub.topic}, group {stub.consumer_group}, sent {stub.count} times")
            lines.append(f"    {stub.attention}")
        if len(self.stubs) > SHOWN:
            lines.append(f"and {len(self.stubs) - SHOWN} more: ariane guarantee list --attention")
        lines += [
            "",
            "Look:    ariane guarantee show ID",
            "Resend:  ariane guarantee resend ID --who YOU --reason WHY",
            "Void:    ariane guarantee void ID --who YOU --reason WHY",
        ]
        return "\n".join(lines) + "\n"


Notifier = Callable[[Notice], None] | Callable[[Notice], Awaitable[None]]
"""A function, called in a thread, or a coroutine function. It failed when it raises."""


@dataclass(frozen=True, kw_only=True)
class Mail:
    """Notifies by mail: `Mail(host="mail.example.com", sender="mq@example.com", to=["ops@example.com"])`."""

    host: str
    sender: str
    to: Sequence[str]
    port: int = 25
    user: str | None = None
    password: str | None = None
    starttls: bool = False
    timeout: float = 10.0

    def __call__(self, notice: Notice) -> None:
        """Send one mail for the notice."""
        mail = EmailMessage()
        mail["Subject"] = notice.subject
        mail["From"] = self.sender
        mail["To"] = ", ".join(self.to)
        mail["Date"] = formatdate()
        mail["Message-ID"] = f"<{notice.notice_id}@ariane.guarantee>"
        mail.set_content(notice.text)
        with smtplib.SMTP(self.host, self.port, timeout=self.timeout) as smtp:
            if self.starttls:
                smtp.starttls(context=ssl.create_default_context())
            if self.user is not None:
                smtp.login(self.user, self.password or "")
            smtp.send_message(mail)


async def call(notifier: Notifier, notice: Notice) -> None:
    """Call a notifier of either kind."""
    if inspect.iscoroutinefunction(notifier) or inspect.iscoroutinefunction(type(notifier).__call__):
        await notifier(notice)  # type: ignore[misc]
    else:
        await asyncio.to_thread(notifier, notice)
