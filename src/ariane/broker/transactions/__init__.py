"""Transactional messages.

- `half_messages`: the form of half and op messages, and the state of the half queue.
- `handler`: END_TRANSACTION, a producer's decision, and RESUME_CHECK_HALF_MESSAGE, an operator's request.
- `check`: asks producers about half messages that stay undecided.
"""
