"""The tables of a broker, and the requests that read and change them.

- `topics`, `groups`, `offsets`, `clients`, `queue_locks`: one table each. `topics_handler`, `offsets_handler`,
  `clients_handler` and `queue_locks` answer requests; requests of operators are in `ariane.broker.admin`.
- `queues`: whether a queue exists. `consistency`: whether a group's members have the same subscriptions.
- `notify`: tells members that their group changed.
- `persistence`: the tables as files of RocketMQ's config folder, each with one writer; `journal`: the changes of
  offsets between two writes of their file.
- `pruning`: removes what is no longer used.
"""
