"""Errors of the application layer. Each text names the setting, function or parameter, and the remedy."""

from ariane.errors import ArianeError, ConfigError


class AppError(ArianeError):
    """The application is put together wrongly, or used before it was started."""


class NotStarted(AppError):
    """The application is used while it does not run."""

    def __init__(self) -> None:
        super().__init__(
            "the application is not running: use `async with app:`, its lifespan, `with app.sync:` "
            "or `ariane app run module:app`"
        )


class SettingsError(ConfigError):
    """A setting is unknown, malformed or contradicts another one; the text names its key."""


class InvalidPayload(ArianeError):
    """A message's body is not of the type that its listener declares; `problems` has one sentence each."""

    def __init__(self, text: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems
