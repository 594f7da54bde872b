"""The name server: brokers register, clients ask for routes.

It keeps no state on disk but the KV configuration, and name servers do not talk to each other.
"""
