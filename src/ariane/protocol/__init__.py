"""RocketMQ's bytes: frames, commands, headers, bodies and message units. Bytes in, values out; no I/O here."""
