"""The first entry of a leader's term: without an entry of its own term it may not commit those of earlier terms.

It is a message of a system topic that is in no queue (a rolled-back one), so that Apache's members store and dispatch
it like any other and no consumer sees it.
"""

from typing import Final

from ariane.dledger.storage.entry import ENTRY_HEADER
from ariane.dledger.storage.log import LedgerLog
from ariane.errors import ProtocolError
from ariane.protocol.units import TRANSACTION_ROLLBACK, Unit, decode_unit, encode_unit, unit_size

TERM_TOPIC: Final = b"RMQ_SYS_ARIANE_TERM"
_NO_HOST: Final = bytes(8)


def term_entry(ledger: LedgerLog, term: int, now_ms: int) -> None:
    """Append the entry."""
    append_hidden(ledger, TERM_TOPIC, b"term %d" % term, now_ms)


def append_hidden(ledger: LedgerLog, topic: bytes, body: bytes, now_ms: int) -> None:
    """Append a message that is in no queue."""
    unit = Unit(
        topic,
        body,
        b"",
        sys_flag=TRANSACTION_ROLLBACK,
        born_time=now_ms,
        born_host=_NO_HOST,
        store_host=_NO_HOST,
    )
    unit.store_time = now_ms
    unit.physical_offset = ledger.reserve(unit_size(unit))
    ledger.tail.write(encode_unit(unit))
    ledger.commit()


def is_term_entry(record: bytes) -> bool:
    """Whether an entry, with its header, is the first one of an Ariane leader's term."""
    try:
        unit = decode_unit(memoryview(record)[ENTRY_HEADER.size :])
    except ProtocolError:
        return False
    return unit.topic == TERM_TOPIC and unit.store_host == _NO_HOST
