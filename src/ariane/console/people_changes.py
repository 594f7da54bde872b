"""Changes of the console itself: its users, and its alarm rules."""

from dataclasses import asdict

from ariane.console.audit import AuditLog
from ariane.console.change import Door, still
from ariane.console.people.users import Users
from ariane.console.people.visitor import Visitor
from ariane.console.rights import Role
from ariane.console.watch.alarms import AlarmRules, Notice, RulesFile
from ariane.console.watch.notices import Notifier
from ariane.errors import ArianeError


class PeopleChanges(Door):
    """Users and alarm rules."""

    def __init__(self, audit: AuditLog, users: Users, rules: RulesFile, notifier: Notifier) -> None:
        super().__init__(audit)
        self._users = users
        self._rules = rules
        self._notifier = notifier

    async def add_user(self, who: Visitor, name: str, role: Role) -> str:
        """Create a user of the console; returns the one-time password."""

        async def work() -> str:
            return self._users.add(name, role)

        return await self._make(who, "user.add", None, name, work, after=role.name.lower())

    async def reset_user(self, who: Visitor, name: str) -> str:
        """Give a user a new one-time password, which ends the user's sessions."""

        async def work() -> str:
            return self._users.reset(name)

        known = self._users.get(name)
        before = None if known is None else "one-time password" if known.one_time else "own password"
        return await self._make(who, "user.reset", None, name, work, before=before, after="one-time password")

    async def set_user_role(self, who: Visitor, name: str, role: Role) -> None:
        """Change a user's role; it counts at once."""

        async def work() -> None:
            self._users.set_role(name, role)

        await self._make(who, "user.role", None, name, work, before=self._role(name), after=role.name.lower())

    async def remove_user(self, who: Visitor, name: str) -> None:
        """Delete a user, which ends the user's sessions."""

        async def work() -> None:
            self._users.remove(name)

        await self._make(who, "user.remove", None, name, work, before=self._role(name))

    def _role(self, name: str) -> str | None:
        known = self._users.get(name)
        return None if known is None else known.role.name.lower()

    async def change_rules(self, who: Visitor, rules: AlarmRules, expected: AlarmRules) -> None:
        """Replace the alarm rules; refused when somebody else did after the page was loaded."""

        async def work() -> None:
            still(expected, self._rules.current)
            self._rules.write(rules)

        before = asdict(self._rules.current)
        await self._make(who, "alarms.change", None, "alarms", work, before=before, after=asdict(rules))

    async def test_notices(self, who: Visitor, notices: list[Notice]) -> None:
        """Send a notice over every channel now."""

        async def work() -> None:
            for channel in self._notifier.channels:
                try:
                    await self._notifier.send(channel, notices)
                except Exception:
                    raise ArianeError(f"{channel.name}: {channel.error}") from None

        names = ", ".join(one.name for one in self._notifier.channels)
        await self._make(who, "alarms.test", None, names, work)
