"""The files of one member: entries, their index, term and vote, members.

files          the folder: data, index, currterm, checkpoint
log, index     entries and their positions; `log` is a log of the store (store/log/log.py)
entry          the format of both; term_entry: the first entry of a term
plain_part     the commitlog of before, below the first entry
configuration  the members of the group as an entry; members_file: as a file
state_files    the formats of the small files
"""
