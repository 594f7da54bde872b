"""Observers of sends and listener calls: `hooks` of users, message `trace`, OpenTelemetry spans (`telemetry`)."""
