"""Pulling: check a request, filter, answer with slices of the log, or park the request until a message arrives.

A pull goes through `handler`: `target` finds group, topic and queue, `subscriptions` the filter, the store the
messages, `answer` encodes the head of the answer; `longpoll` parks. `expressions` keeps the expressions of groups.
"""
