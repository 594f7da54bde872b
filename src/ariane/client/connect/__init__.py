"""Connections to a cluster: name servers, routes, requests to brokers and requests from them, signing."""
