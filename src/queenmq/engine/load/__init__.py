"""Measures how busy the broker is and decides what it still accepts.

Enters: pool use, queue depths, call times. Leaves: accept, queue or refuse, per kind of request.
Start with `pressure.py`, the pure decision.
"""
