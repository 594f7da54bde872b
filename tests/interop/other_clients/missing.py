"""What the machine lacks."""


class PeerMissing(Exception):
    """The machine cannot run this client; the message says why."""


def last_line(text: str) -> str:
    """Where tools say what went wrong."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or [""])[-1]
