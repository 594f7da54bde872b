"""Hooks, message trace and OpenTelemetry spans around sends and consumption."""
