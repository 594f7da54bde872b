"""The client of RocketMQ clusters, ours or Apache's: producers, consumers, admin."""
