"""Owns the state of all pops: the only code that changes a pool. Pure: no clock, no I/O.

Enters: events (a pop arrived, a push was stored, a call ended). Leaves: actions (call, look up,
answer, wake up). Start with `board.py`, whose docstring explains the theory, then `turns.py`.
"""
