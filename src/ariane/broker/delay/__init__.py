"""Delayed messages.

- `delivery`: redirects messages to the schedule topic and delivers them when they are due.
- `progress`: saves how far each level has delivered.
"""
