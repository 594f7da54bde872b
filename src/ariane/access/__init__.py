"""Access control in RocketMQ's form: accounts with keys and permissions, in YAML files that are watched.

    addresses    patterns of addresses
    accounts     an account and what it may do
    rules_file   one YAML file: read, checked, changed
    rules        the rules of all files, reloaded when a file changes
    known        cache of the sends and pulls accepted on a connection
    replay       refuses replayed requests
    gate         decides about each request by a table of rules
    signer       signs the requests of clients and brokers
    explain      names the rule that allows or denies an action
    counters     refusals and reloads

Broker and name server use it; each has its own table of request codes.
"""
