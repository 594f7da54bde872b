"""What the machine lacks."""


class PeerMissing(Exception):
    """The machine cannot run this client; the message says why."""
