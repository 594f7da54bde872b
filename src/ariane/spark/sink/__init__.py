"""The Spark sink: rows to messages, and exactly-once commits of half messages."""
