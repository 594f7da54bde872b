"""Commands to operate a cluster, grouped by what they are about: `ariane topic create`, `ariane group lag`, ...

session                                     connecting, options that all have, asking before something is destroyed
output                                      tables for people, JSON for programs
moments                                     times as people write them
topic, group, message, cluster, broker      one module a group
offset, dlq, transaction, account, filter
"""
