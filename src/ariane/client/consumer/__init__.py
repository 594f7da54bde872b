"""Consumers: the push consumer with its listeners, the lite pull consumer, and what they share."""
