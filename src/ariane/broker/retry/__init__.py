"""Messages that consumers could not process.

- `retries`: the rules: which topic, which delay, how many times.
- `send_back`: CONSUMER_SEND_MSG_BACK stores a message for a retry or as a dead letter.
- `dead_letters`: RESEND_DEAD_LETTERS sends dead letters to their original topic again.
"""
