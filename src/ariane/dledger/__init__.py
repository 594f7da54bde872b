"""DLedger: a log replicated by Raft, with the file and wire formats of Apache's dledger 0.3.1.

member       drives the core (`ariane.raft`) with files, connections and the clock
introductions  what the other members say of themselves: is the group new, does a plain commitlog differ
fitting      whether the entries of another member fit into the log
writer       does the core's writes; pending_appends: a leader's appends that wait for a majority
files        one member's folder: data, index, currterm, checkpoint; plain_part: the commitlog of before
log, index   entries and their positions; `log` is a log of the store (store/log/log.py)
entry        the format of both; state_files that of the small files; term_entry the first entry of a term
peers        connections to the other members; peer_table: to which of them
configuration  the members of the group as an entry; members_file: as a file; membership_changes adds and removes them
scrub        finds damaged entries in the background, and repairs them from other members
native       messages between Ariane's members
wire         bodies of Apache's requests; apache_requests answers those of its members, apache_sender sends ours
group_status a client of a running group, for operators
"""
