"""Whether the entries of another member fit into this member's log."""

from ariane.dledger.peers.native import Records
from ariane.dledger.storage.log import LedgerLog
from ariane.raft import AppendEntries, Message, Node, ResetLog


def begins_elsewhere(ledger: LedgerLog, message: Message) -> bool:
    """Whether a leader's entries do not continue the plain commitlog of this member, which has none of them yet."""
    if not ledger.divide or ledger.last_index >= 0:
        return False
    if isinstance(message, ResetLog):  # it would delete messages that the group never had
        return True
    first = message.entries[0] if isinstance(message, AppendEntries) else None
    return first is not None and first.index == 0 and first.position != ledger.divide


def fits(ledger: LedgerLog, node: Node, message: Message, records: Records) -> bool:
    """Whether entries have the positions that this member would assign; the core handles other mismatches."""
    if isinstance(message, ResetLog):
        size = len(next(iter(records.values())))
        return ledger.place_after(message.start.position - size, size) == message.start.position - size
    if not isinstance(message, AppendEntries):
        return True
    if node.log.term(message.prev_log_index) != message.prev_log_term:
        return True
    end = ledger.end_of(message.prev_log_index)
    if message.prev_log_index < 0 and not ledger.files and message.entries[0].position % ledger.file_size == 0:
        end = message.entries[0].position  # the ledger of this group continues a plain log, which is not here
    for entry in message.entries:
        if entry.position != ledger.place_after(end, entry.size):
            return False
        end = entry.position + entry.size
    return True
