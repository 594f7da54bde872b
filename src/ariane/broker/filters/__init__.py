"""Filters that users bring: modules uploaded by consumers, and filter servers beside the broker.

- `modules`: the uploaded modules of groups, kept over restarts.
- `servers`: the filter servers that are registered here.
- `handler`: the requests about both.
"""
