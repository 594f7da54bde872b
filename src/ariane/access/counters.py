"""Counts what access control did, for metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class AccessCounters:
    """What was decided since the start."""

    allowed: int = 0
    """Requests that passed."""
    refused: Counter[str] = field(default_factory=Counter)
    """Refused requests by reason: no_key, unknown_key, signature, replay, admin, permission, unknown_code."""
    reloads: int = 0
    """Successful reloads of changed files."""
    reload_failures: int = 0
    """Failed reloads of a changed file: its last good rules stay in force."""
    broken_files: int = 0
    """Files that are broken now."""
