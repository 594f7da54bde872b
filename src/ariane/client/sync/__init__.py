"""The clients for plain threads. Derived from the asyncio ones by scripts/derive_sync.py: do not edit.

`ariane` has their names, each of which is loaded when it is first used.
"""
