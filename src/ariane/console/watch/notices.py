"""Sends notices by mail and webhook: several in one, at most one message a minute, again later when it fails."""

import asyncio
import logging
import smtplib
import ssl
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from ariane.console.config_file import ConfigFile
from ariane.console.texts import text
from ariane.console.watch.alarms import Notice
from ariane.env import Clock

MOST_HELD: Final = 500  # notices that wait while a channel fails
MOST_LINES: Final = 30
APART: Final = 60.0  # seconds between two messages
LONGEST_WAIT: Final = 900.0
PATIENCE: Final = 15.0
log = logging.getLogger(__name__)


@dataclass
class Channel:
    """A way to tell somebody."""

    name: str
    where: str
    """What a page may show: no path, user or token."""
    error: str = ""
    sent: int = 0
    """When the last message was sent."""


def line(notice: Notice, language: str = "en") -> str:
    """A notice as a line of text."""
    alarm = notice.alarm
    value = f"{alarm.value:.0%}" if alarm.kind == "disk" else f"{alarm.value:,.0f}"
    what = text(language, f"alarm.{alarm.kind}").format(name=alarm.name, value=value)
    since = f"{datetime.fromtimestamp(alarm.since / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"[{text(language, f'alarm.{notice.state}')}] {alarm.cluster}: {what} ({since})"


def letter(notices: list[Notice]) -> tuple[str, str]:
    """The subject and the text of a message."""
    begins, ends = (sum(one.state == state for one in notices) for state in ("begins", "ends"))
    subject = f"Ariane: {len(notices)} alarms, {begins} new, {ends} over"
    lines = [line(one) for one in notices[:MOST_LINES]]
    if len(notices) > MOST_LINES:
        lines.append(f"and {len(notices) - MOST_LINES} more")
    return subject, "\n".join(lines)


def posted(form: str, notices: list[Notice]) -> dict[str, Any]:
    """The body of a webhook."""
    subject, content = letter(notices)
    whole = f"{subject}\n{content}"
    if form == "dingtalk":  # WeCom takes the same
        return {"msgtype": "text", "text": {"content": whole}}
    if form == "feishu":
        return {"msg_type": "text", "content": {"text": whole}}
    rows = [
        {
            "cluster": one.alarm.cluster,
            "kind": one.alarm.kind,
            "name": one.alarm.name,
            "state": one.state,
            "value": one.alarm.value,
            "since": one.alarm.since,
        }
        for one in notices[:MOST_HELD]
    ]
    return {"text": whole, "alarms": rows}


class Notifier:
    """The channels of the configuration file, each with its own queue."""

    def __init__(self, config: ConfigFile, clock: Clock, apart: float = APART) -> None:
        self._config = config
        self._clock = clock
        self._apart = apart
        self.channels: list[Channel] = []
        self._password = ""
        if config.mail is not None:
            self.channels.append(Channel("mail", f"{', '.join(config.mail.to)} · {config.mail.server}"))
            if config.mail.password_file:
                self._password = config.secret(config.mail.password_file)
        if config.webhook is not None:
            self.channels.append(Channel("webhook", urlsplit(config.webhook.url).hostname or ""))
        self._held: dict[str, deque[Notice]] = {one.name: deque(maxlen=MOST_HELD) for one in self.channels}
        self._news = {one.name: asyncio.Event() for one in self.channels}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to send."""
        self._tasks = [asyncio.ensure_future(self._run(channel)) for channel in self.channels]

    async def stop(self) -> None:
        """Stop sending."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tell(self, notices: list[Notice]) -> None:
        """Send notices soon."""
        if notices:
            for channel in self.channels:
                self._held[channel.name].extend(notices)
                self._news[channel.name].set()

    async def _run(self, channel: Channel) -> None:
        held, news, wait = self._held[channel.name], self._news[channel.name], self._apart
        while True:
            await news.wait()
            news.clear()
            notices = list(held)
            if not notices:
                continue
            try:
                await self.send(channel, notices)
            except (OSError, smtplib.SMTPException, httpx.HTTPError, ValueError) as error:
                news.set()
                await self._clock.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
                log.warning("notices by %s: %s", channel.name, type(error).__name__)
                continue
            for _ in range(min(len(notices), len(held))):
                held.popleft()
            wait = self._apart
            await self._clock.sleep(self._apart)

    async def send(self, channel: Channel, notices: list[Notice]) -> None:
        """Send one message now; raises what went wrong, and notes it without secrets."""
        try:
            if channel.name == "mail":
                async with asyncio.timeout(PATIENCE * 2):  # wait_for of 3.11 may swallow the cancellation of stop()
                    await asyncio.to_thread(self._mail, notices)
            else:
                await self._post(notices)
        except (OSError, smtplib.SMTPException, httpx.HTTPError, ValueError) as error:
            channel.error = _reason(error)
            raise
        channel.error, channel.sent = "", self._clock.now_ms()

    def _mail(self, notices: list[Notice]) -> None:
        options = self._config.mail
        assert options is not None
        subject, content = letter(notices)
        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = subject, options.sender, ", ".join(options.to)
        message["Date"] = format_datetime(datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC))
        message["Message-ID"] = make_msgid(domain="ariane.invalid")
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(content)
        context = ssl.create_default_context()
        if options.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(options.server, options.port, timeout=PATIENCE, context=context)
        else:
            server = smtplib.SMTP(options.server, options.port, timeout=PATIENCE)
        with server:
            if options.security == "starttls":
                server.starttls(context=context)
            if options.user:
                server.login(options.user, self._password)
            server.send_message(message)

    async def _post(self, notices: list[Notice]) -> None:
        options = self._config.webhook
        assert options is not None
        async with httpx.AsyncClient(timeout=PATIENCE, follow_redirects=False) as client:
            answer = await client.post(options.url, json=posted(options.form, notices))
        if answer.status_code >= 300:
            raise ValueError(f"the webhook answered {answer.status_code}")


def _reason(error: Exception) -> str:
    """What went wrong, without addresses: that of a webhook may be a secret, and so may a server's answer."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{type(error).__name__} {error.smtp_code}"
    return (
        str(error)
        if isinstance(error, ValueError) and not isinstance(error, httpx.InvalidURL)
        else type(error).__name__
    )
