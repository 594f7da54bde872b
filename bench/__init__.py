"""Measurements beside peers in the same run. `make bench` runs them; results are ratios, not promises of a machine."""
