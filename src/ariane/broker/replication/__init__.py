"""Replication as the broker sees it: a slave's copies of its master's tables, promotion, return of an old master.

The log itself is copied by `ariane.ha`. `metadata` copies topics, groups and offsets; `peers` asks the other brokers of
the same name; the role that all of them follow is `ariane.broker.role`. In a DLedger group `replicated_tables` keeps
the tables in the log: `table_record` is their format, `table_image` what is committed.
"""
