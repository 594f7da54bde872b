"""Functions that listen: what they are called with, how a message is delivered to one, and its figures.

listener   a function with its topic, group and settings
arguments  reads its signature: payload, headers, dependencies
context    what it can ask about the message; `Retry` and `DeadLetter`
delivery   calls it for messages, and decides what becomes of them
figures    counts and durations; telemetry: failures in the current OpenTelemetry span
"""
