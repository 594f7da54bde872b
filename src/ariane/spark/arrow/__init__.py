"""Message units to Arrow columns."""
