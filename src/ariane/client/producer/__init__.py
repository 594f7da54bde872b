"""Producers: choose a queue, encode, send, retry; transactions and request-reply."""
