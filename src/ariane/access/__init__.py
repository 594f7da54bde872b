"""Access control in RocketMQ's form: accounts with keys and permissions, in YAML files that are watched.

    addresses    patterns of addresses
    accounts     an account and what it may do
    rules_file   one YAML file: read, checked, changed
    rules        the rules of all files, reloaded when a file changes
    known        connections whose sends and pulls were let in before
    replay       refuses requests that were seen before
    gate         decides about each request by a table of rules
    signer       signs the requests of clients and brokers
    explain      says by which rule an account may do something
    counters     what was refused, and how reloads went

Broker and name server use it; each has its own table of request codes.
"""
