"""Delayed messages: one queue per level, redelivered under their own topic when due."""
