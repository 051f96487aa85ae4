"""Owns the routes of streams: queries, their state, their cycles.

Start with `cycles.py`, which clients call all the time; `queries.py` is for starts and operators.
"""
