"""Histories of a group under faults, and a public checker (porcupine, in Go) of their linearizability."""
