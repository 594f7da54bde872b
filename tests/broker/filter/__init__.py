"""Filters, checked against the verdicts of Apache's own."""
