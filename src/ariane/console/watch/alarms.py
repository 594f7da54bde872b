"""Alarms: rules over each sample. A notice at the begin and one at the end, rare reminders, none in quiet times."""

import json
import logging
import os
import re
import sqlite3
from collections import deque
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from ariane.console.watch.database import open_database
from ariane.env import Clock
from ariane.errors import ArianeError, ConfigError

KINDS: Final = ("lag", "letters", "disk", "missing", "conflict", "unreachable")
STEADY: Final = 2  # samples with or without the condition before an alarm begins or ends
MOST_ACTIVE: Final = 1000  # alarms at a time
MOST_PAST: Final = 5000  # alarms that are kept
_QUIET: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
log = logging.getLogger(__name__)

Key = tuple[str, str, str]
"""Cluster, kind and name."""


@dataclass(frozen=True)
class AlarmRules:
    """When an alarm begins. Zero switches a threshold off."""

    lag: int = 10_000
    """Messages that wait for a group."""
    letters: int = 1
    """New dead letters of a group within an hour."""
    disk_percent: int = 85
    missing: bool = True
    """A broker that was there within a day is gone or does not answer."""
    conflicts: bool = True
    """Clients of a group subscribe differently."""
    quiet: str = ""
    """Times of day in UTC without notices: `22:00-07:00, 12:00-13:00`."""
    muted: str = ""
    """Names without alarms, separated by blanks; `*` stands for anything."""
    remind_hours: int = 24

    def __post_init__(self) -> None:
        if min(self.lag, self.letters, self.disk_percent) < 0 or self.disk_percent > 100 or self.remind_hours < 1:
            raise ConfigError("thresholds are not negative, a disk has at most 100 %, reminders are an hour apart")
        for part in self.quiet.split(","):
            if part.strip() and not _QUIET.fullmatch(part.strip()):
                raise ConfigError("quiet times are written as 22:00-07:00, separated by commas")

    def is_quiet(self, now_ms: int) -> bool:
        """Whether no notice is sent now.

        >>> AlarmRules(quiet="22:00-07:00").is_quiet(3_600_000)
        True
        """
        now = datetime.fromtimestamp(now_ms / 1000, UTC).time()
        for part in self.quiet.split(","):
            if found := _QUIET.fullmatch(part.strip()):
                hours = [int(one) for one in found.groups()]
                begin, end = time(hours[0], hours[1]), time(hours[2], hours[3])
                if begin <= now < end if begin <= end else now >= begin or now < end:
                    return True
        return False

    def is_muted(self, name: str) -> bool:
        """Whether a name has no alarms."""
        return any(fnmatchcase(name, pattern) for pattern in self.muted.split())


@dataclass(frozen=True)
class Alarm:
    """An alarm: of a cluster, of a kind, about a group or broker."""

    cluster: str
    kind: str
    name: str
    value: float
    since: int
    ended: int = 0
    noticed: int = 0
    """When its begin was last told; 0 while nobody was."""

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.cluster, self.kind, self.name


@dataclass(frozen=True)
class Notice:
    """One thing to tell."""

    alarm: Alarm
    state: str
    """`begins`, `ends` or `lasts`."""


class RulesFile:
    """The rules in a file of the console's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.current = self._read()

    def _read(self) -> AlarmRules:
        try:
            data = json.loads(self._path.read_text("utf-8"))
            return AlarmRules(**data)
        except FileNotFoundError:
            return AlarmRules()
        except (ValueError, TypeError, ConfigError) as error:
            raise ConfigError(f"{self._path}: not a file of alarm rules: {error}") from None

    def write(self, rules: AlarmRules) -> None:
        """Replace the rules."""
        temporary = self._path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(asdict(rules), file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        self.current = rules


class Alarms:
    """The alarms that are on and those that were, kept in SQLite so that a restart repeats nothing."""

    def __init__(self, path: Path, rules: RulesFile, clock: Clock) -> None:
        self.rules = rules
        self._clock = clock
        self._database = open_database(
            path,
            "create table if not exists alarm (cluster text, kind text, name text, value real, since integer, "
            "ended integer, noticed integer, primary key (cluster, kind, name, since)) without rowid;",
        )
        columns = ", ".join(one.name for one in fields(Alarm))
        self._select = f"select {columns} from alarm"
        rows = self._database.execute(f"{self._select} where ended = 0").fetchall()
        self._active = {alarm.key: alarm for alarm in (Alarm(*row) for row in rows)}
        self._seen: dict[Key, int] = {}
        self._gone: dict[Key, int] = {}
        self._held: deque[Notice] = deque(maxlen=MOST_ACTIVE)

    @property
    def active(self) -> list[Alarm]:
        """What is on now, the newest first."""
        return sorted(self._active.values(), key=lambda one: -one.since)

    def past(self, most: int = 500) -> list[Alarm]:
        """What ended, the newest first."""
        rows = self._database.execute(f"{self._select} where ended > 0 order by ended desc limit ?", (most,))
        return [Alarm(*row) for row in rows]

    def look(self, cluster: str, found: dict[tuple[str, str], float], kinds: frozenset[str]) -> list[Notice]:
        """Compare a sample with what is on; returns what is to be told now.

        `found` has the value of each condition by (kind, name). `kinds` were looked at: others stay as they are.
        """
        now, rules = self._clock.now_ms(), self.rules.current
        wanted = {(cluster, kind, name): value for (kind, name), value in found.items() if not rules.is_muted(name)}
        notices: list[Notice] = []
        changed: list[Alarm] = []
        self._seen = {key: times for key, times in self._seen.items() if key in wanted or key[0] != cluster}
        for key, value in wanted.items():
            self._gone.pop(key, None)
            if key in self._active:
                self._active[key] = replace(self._active[key], value=value)
                continue
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] >= STEADY and len(self._active) < MOST_ACTIVE:
                alarm = Alarm(*key, value, now)
                self._active[key] = alarm
                changed.append(alarm)
                notices.append(Notice(alarm, "begins"))
        for key, alarm in list(self._active.items()):
            if key[0] != cluster or key[1] not in kinds or key in wanted:
                continue
            self._gone[key] = self._gone.get(key, 0) + 1
            if self._gone[key] >= STEADY:
                del self._active[key], self._gone[key]
                ended = replace(alarm, ended=now)
                changed.append(ended)
                notices.append(Notice(ended, "ends"))
        due = self._due(notices, cluster, now)
        for notice in due:
            if notice.alarm.key in self._active:
                told = replace(self._active[notice.alarm.key], noticed=now)
                self._active[told.key] = told
                changed.append(told)
        self._keep(changed)
        return due

    def _due(self, notices: list[Notice], cluster: str, now: int) -> list[Notice]:
        """What is told now: nothing in quiet times. After them, what is still on; what came and went is left out."""
        rules = self.rules.current
        if rules.is_quiet(now):
            self._held.extend(notices)
            return []
        held = [one for one in self._held if one.alarm.cluster == cluster]
        for one in held:
            self._held.remove(one)
        told_begins = {one.alarm.key for one in held if one.state == "begins"}
        due = [one for one in held if one.state == "begins" and one.alarm.key in self._active]
        due += [one for one in held if one.state == "ends" and one.alarm.key not in told_begins]
        due += notices
        told = {one.alarm.key for one in due}
        for key, alarm in self._active.items():
            late = alarm.noticed and now - alarm.noticed >= rules.remind_hours * 3_600_000
            if key[0] == cluster and key not in told and late:
                due.append(Notice(alarm, "lasts"))
        return due

    def _keep(self, changed: list[Alarm]) -> None:
        if not changed:
            return
        try:
            with self._database:
                self._database.executemany(
                    "insert or replace into alarm (cluster, kind, name, value, since, ended, noticed) "
                    "values (?, ?, ?, ?, ?, ?, ?)",
                    [(a.cluster, a.kind, a.name, a.value, a.since, a.ended, a.noticed) for a in changed],
                )
                self._database.execute(
                    "delete from alarm where ended > 0 and ended < "
                    "(select ended from alarm where ended > 0 order by ended desc limit 1 offset ?)",
                    (MOST_PAST,),
                )
        except sqlite3.Error as error:  # the notices go out all the same
            log.error("%d alarms cannot be kept: %s", len(changed), error)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def changed_rules(rules: AlarmRules, changes: dict[str, Any]) -> AlarmRules:
    """Rules with some values replaced; ArianeError when that is none."""
    try:
        return replace(rules, **changes)
    except (ConfigError, TypeError, ValueError) as error:
        raise ArianeError(str(error)) from None
