"""Sending: check a request, append the message, acknowledge it when it is stored as promised.

A send goes through `handler`: `flow` may refuse it, `target` finds topic and queue, `properties` makes the stored form,
the store appends, `answer` encodes the answer, now or when `acknowledge` says so. `reply` pushes the answer of a
request-reply pair.
"""
