"""The compiled byte work of the hot path.

Each module has a general way beside it in `protocol`, and property tests compare both.
"""
