"""DLedger: a log replicated by Raft, with the file and wire formats of Apache's dledger 0.3.1.

member              drives the core (`ariane.raft`) with files, connections and the clock
storage             the files of one member
peers               connections to the other members, and what is said over them
writer              does the core's writes; pending_appends: a leader's appends that wait for a majority
introductions       what the other members say of themselves: is the group new, does a plain commitlog differ
fitting             whether the entries of another member fit into the log
membership_changes  adds and removes members
scrub               finds damaged entries in the background, and repairs them from other members
group_status        a client of a running group, for operators
"""
