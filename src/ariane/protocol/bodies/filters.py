"""Filter modules that consumers have uploaded."""

from ariane.protocol.bodies.body import Body


class FilterRecord(Body):
    """The module of one group for one topic."""

    consumer_group: str
    topic: str
    sha256: str
    bytes: int
    name: str = ""
    """As the uploading client calls it: the name of the file."""
    filter_server: bool = False
    """Filter servers run it, not the broker."""
    uploaded_by: str = ""
    """The account, or the address when access control is off."""
    uploaded_at: int = 0
    """In milliseconds since 1970."""


class FilterList(Body):
    """The modules of a broker."""

    filters: list[FilterRecord] = []
