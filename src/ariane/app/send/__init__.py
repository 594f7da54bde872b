"""Sending of an application: the template, messages from payloads, and transactions.

outgoing      destinations, keywords and the message built from a payload
template      sends payloads; its middleware
transactions  listeners that decide what becomes of half messages
"""
