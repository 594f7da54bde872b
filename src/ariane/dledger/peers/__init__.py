"""The other members: a connection to each, and the messages of both kinds.

peer, table      a connection; which members there are, and of which kind
native           messages between Ariane's members
wire             bodies of Apache's requests
apache_requests  answers the requests of Apache's members; apache_sender sends ours to them
"""
