"""The queues that a consumer holds.

- `rebalance`: computes this member's queues whenever members join or leave
- `start_offset`: where to begin with a queue
- `puller`: long polls
- `process_queue`: messages that were pulled and are not consumed yet
- `offset_store`: the group's offsets, at the brokers or in a file
"""
