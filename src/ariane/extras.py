"""Optional dependencies: what is missing is told in one sentence, with the command that installs it."""

from collections.abc import Iterator
from contextlib import contextmanager

from ariane.errors import ArianeError


class MissingExtra(ArianeError, ImportError):
    """A package of an extra is not installed; the text says what to install."""

    def __init__(self, text: str, extra: str) -> None:
        super().__init__(text)
        self.extra = extra


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Import inside this block what `pip install 'ariane[name]'` brings.

    >>> try:
    ...     with extra("broker", "the broker"):
    ...         import no_such_package
    ... except MissingExtra as missing:
    ...     print(missing)
    the broker needs no_such_package, which is not installed: pip install 'ariane[broker]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "ariane").partition(".")[0]
        if missing == "ariane":
            raise  # a fault of ours, not a missing package
        text = f"{what} needs {missing}, which is not installed: pip install 'ariane[{name}]'"
        raise MissingExtra(text, name) from None
