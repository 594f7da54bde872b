"""Connections to a cluster.

- `instance`: what the clients of a process share; `lifecycle`: start and close of a client
- `name_servers`, `routes`: where topics are; `ids`, `namespaces`: names of clients, messages, topics and groups
- `wire`, `refusals`: requests, their error responses; `broker_calls`: requests about queues
- `server_requests`, `replies`: requests from brokers
- `tasks`: background work; `pending_request`: requests that may start in the caller's thread
"""
