"""Messages that consumers send back: retries, dead letters, and dead letters resent by an operator."""
