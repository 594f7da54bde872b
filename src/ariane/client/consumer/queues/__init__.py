"""The queues that a consumer holds.

- `rebalance`: which queues are ours, recomputed as members come and go
- `start_offset`: where to begin with a queue
- `puller`: long polls
- `process_queue`: messages that were pulled and are not consumed yet
- `offset_store`: how far the group is, at the brokers or in a file
"""
