"""Hostile input: mutations of recorded frames and bodies against every decoder, and against a live broker.

mutate      changes bytes in the ways that break parsers
decoders    what is fed to which decoder, and what it may raise
live        the same frames over sockets to a broker process, with a client that must be served meanwhile
"""
