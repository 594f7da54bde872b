"""Ariane."""
