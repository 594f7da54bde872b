"""Errors of a configuration."""

from ariane.errors import ConfigError


class NotUpdatable(ConfigError):
    """The key cannot be changed while the process runs."""
