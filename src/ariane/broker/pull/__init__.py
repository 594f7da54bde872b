"""Pulling: check a request, filter, answer with slices of the log, or park the request until a message arrives."""
