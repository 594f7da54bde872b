"""Doubles of the outside world that Ariane's own tests use, for users' tests too."""
