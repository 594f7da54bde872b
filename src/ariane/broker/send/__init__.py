"""Sending: check a request, append the message, acknowledge it when it is stored as promised."""
