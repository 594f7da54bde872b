"""Requests of operators: one module per subject, each with its table of request codes."""
