"""What this process may do: how many files and connections it may open, and whether it may write its store."""

from pathlib import Path

from ariane.env import Files
from ariane.errors import ConfigError

ENOUGH = 65_536  # a connection a client, and a file for each queue that is in use


def raise_open_files() -> int | None:
    """Raise the soft limit as far as it goes; what it is then, or nothing where there is no limit."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return None
    kind = resource.RLIMIT_NOFILE
    soft, hard = resource.getrlimit(kind)
    for wanted in (hard, ENOUGH):  # macOS calls its hard limit unlimited, and refuses that number
        if soft == hard:
            break
        try:
            resource.setrlimit(kind, (wanted, hard))
            soft = wanted
            break
        except (OSError, ValueError):
            continue
    return None if soft == resource.RLIM_INFINITY else soft


def open_files_limit() -> int | None:
    """How far the limit of open files can be raised; nothing where there is none."""
    try:
        import resource
    except ImportError:
        return None
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return None if hard == resource.RLIM_INFINITY else hard


def few_files_warning(limit: int | None) -> str | None:
    """What to tell somebody whose broker would run out of files; nothing when there are enough."""
    if limit is None or limit >= ENOUGH:
        return None
    return (
        f"only {limit} files and connections may be open at once, and a busy broker wants {ENOUGH}; "
        "say so with ulimit -n, or LimitNOFILE= in its systemd unit"
    )


def check_store_folder(files: Files, folder: Path) -> None:
    """Make the store folder; ConfigError says in one sentence why it cannot be written."""
    probe = folder / ".writable"
    try:
        files.make_folder(folder)
        files.replace(probe, b"")
        files.remove(probe)
    except (FileExistsError, NotADirectoryError) as error:
        at = error.filename or folder
        raise ConfigError(f"the store folder {folder} cannot be made: {at} is a file; name another folder") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"the store folder {folder} cannot be written ({reason}); change its permissions or name another folder"
        ) from None
