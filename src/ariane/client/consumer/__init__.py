"""Consumers.

- `push`: PushConsumer, which calls a listener; `push_engine` holds its queues
- `lite_pull`: LitePullConsumer, which is polled; `lite_engine` holds its queues
- `pull_client`: PullClient, raw pulls without a group
- `queues/`: rebalance, pulls, caches and offsets; `listen/`: listeners and what runs them
- `allocate`: strategies that divide queues among members
- `options`, `stats`, `running_info`: how a consumer is set up and how it performs
"""
