"""A shop over RocketMQ: a web service whose orders are messages."""
