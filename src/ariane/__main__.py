"""`python -m ariane` is the command `ariane`."""

from ariane.cli import main

main()
