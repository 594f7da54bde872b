"""Requests of operators, one module for each subject.

Manage `topics`, `groups`, `offsets` and `config`; read `clients`, `stats`, `runtime` and messages (`queries`); `reset`
offsets; `relay` requests to consumers; clean the `store`.
"""
