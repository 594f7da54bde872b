"""Looks at a broker's configuration, its store folder and the limits of this machine. Changes nothing that lasts."""

import os
from collections.abc import Iterator
from pathlib import Path

from ariane.broker.config import BrokerOptions
from ariane.cli.doctor.finding import Finding, error, fine, warning
from ariane.cli.servers.host import is_unspecified, reach_warning
from ariane.cli.servers.limits import ENOUGH, open_files_limit
from ariane.env import Files, LockHeld
from ariane.errors import ConfigError
from ariane.settings import Host


def read_configuration(text: str, file: str, host: Host) -> tuple[BrokerOptions | None, list[Finding]]:
    """The options of a file, and what is wrong with them; no options when they cannot be read."""
    try:
        options = BrokerOptions.load(text, file=file, host=host)
        options.settings.refuse_absent()
    except ConfigError as problem:
        return None, [error("configuration", str(problem), "correct the line: the broker does not start with it")]
    found = [fine("configuration", f"{file or 'the default configuration'} is accepted")]
    if options.ignored:
        names = ", ".join(options.ignored)
        found.append(warning("ignored-options", f"these options have no effect: {names}", "remove them"))
    return options, found


def look_at_options(options: BrokerOptions) -> Iterator[Finding]:
    """What the options of a broker lead to."""
    reach = reach_warning(options.broker_ip1, "brokerIP1")
    if is_unspecified(options.broker_ip1):
        yield error(
            "advertised-address", f"brokerIP1 is {options.broker_ip1!r}", "set an address that clients can reach"
        )
    elif reach is not None:
        yield warning("advertised-address", reach, "set brokerIP1 to an address that every client can reach")
    else:
        yield fine("advertised-address", f"clients are told {options.broker_ip1}")
    if not options.namesrv_addr:
        text = "no name server is configured: clients will not find this broker"
        yield warning("name-servers", text, "set namesrvAddr, or NAMESRV_ADDR in the environment")
    if options.file_reserved_time_hours < 1:
        yield warning("retention", "messages are kept for less than an hour", "set fileReservedTime")


def look_at_store(options: BrokerOptions, files: Files) -> Iterator[Finding]:
    """The store folder: its permissions, its lock and its disk."""
    root = Path(options.store_path_root_dir)
    folder = _existing(root)
    if not os.access(folder, os.W_OK | os.X_OK) or not folder.is_dir():
        what = f"{folder} is not a folder that this user can write"
        yield error("store-folder", what, "change its owner or permissions, or set storePathRootDir")
        return
    yield fine("store-folder", f"{root} can be written" if folder == root else f"{root} can be made")
    unreadable = next((path for path in _files(root) if not os.access(path, os.R_OK | os.W_OK)), None)
    if unreadable is not None:
        advice = "give the store to the user of the broker: chown -R"
        yield error("store-files", f"{unreadable} cannot be read and written by this user", advice)
    yield from _lock(root, files)
    yield from _disk(options, files, folder)


def _lock(root: Path, files: Files) -> Iterator[Finding]:
    lock = root / "lock"
    if not lock.exists() or not os.access(lock, os.W_OK):
        return
    try:
        files.lock(lock, "").release()
    except LockHeld as held:
        holder = held.holder.removeprefix("lock").strip() or "held by another process"
        text = f"the store is in use, {holder}"
        yield warning("store-locked", text, "only one broker can use a folder; fine if that is the one you look at")


def _disk(options: BrokerOptions, files: Files, folder: Path) -> Iterator[Finding]:
    used = files.usage(folder).used_ratio
    refuse = options.disk_space_warning_level_ratio
    delete = min(options.disk_max_used_space_ratio_percent / 100, options.disk_space_clean_forcibly_ratio)
    text = f"the disk of {folder} is {used:.0%} full"
    if used > refuse:
        yield error(
            "disk", f"{text}; sends are refused above {refuse:.0%}", "free some room, or lower fileReservedTime"
        )
    elif used > delete:
        advice = "free some room, or lower fileReservedTime"
        yield warning("disk", f"{text}; above {delete:.0%} old messages are deleted early", advice)
    else:
        yield fine("disk", text)


def look_at_machine() -> Iterator[Finding]:
    """The limits of this machine."""
    limit = open_files_limit()
    if limit is not None and limit < ENOUGH:
        text = f"a process may open only {limit} files and connections; a busy broker wants {ENOUGH}"
        yield warning("open-files", text, "raise ulimit -Hn, or LimitNOFILE= in the systemd unit")
    else:
        yield fine("open-files", "enough files and connections may be open")
    maps = Path("/proc/sys/vm/max_map_count")
    if maps.exists() and (count := int(maps.read_text())) < ENOUGH - 6:
        yield warning("memory-maps", f"vm.max_map_count is {count}", "sysctl -w vm.max_map_count=655360")


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _files(root: Path) -> Iterator[Path]:
    for name in ("commitlog", "consumequeue", "index", "config", "checkpoint", "abort", "lock"):
        path = root / name
        if path.exists():
            yield path
            if path.is_dir() and os.access(path, os.R_OK | os.X_OK) and name in ("commitlog", "config"):
                yield from path.iterdir()
