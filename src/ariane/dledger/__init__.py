"""DLedger: a log that a group of members keeps by Raft, with the files and the wire of Apache's dledger 0.3.1.

member       drives the core (`ariane.raft`) with files, connections and the clock
files        one member's folder: data, index, currterm, checkpoint
log, index   entries and where they lie; `log` is a log of the store (store/log/log.py)
entry        the bytes of both; state_files those of the small files; term_entry what begins a term
peers        connections to the other members
native       messages between Ariane's members; apache, wire those with Apache's
"""
