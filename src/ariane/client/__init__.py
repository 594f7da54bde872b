"""The client library, for asyncio; `sync/` has the same clients for threads.

- `producer/`: choose a queue, encode, send, retry; transactions; request and reply
- `consumer/`: push, lite pull and raw pull consumers
- `connect/`: name servers, routes, connections, heartbeats, requests from brokers; what the clients of a process share
- `observe/`: hooks, message trace, OpenTelemetry
- `sync/`: derived by scripts/derive_sync.py, and the thread that runs the event loop
- `admin`: topics, groups, offsets; `decoding`: message units as messages; `options`, `results`

Imports go one way: sync, admin -> consumer -> producer -> observe -> connect -> decoding, options, results.
"""
