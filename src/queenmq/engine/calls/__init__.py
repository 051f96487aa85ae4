"""Joins waiting requests into few database calls.

Enters: requests of one kind. Leaves: one call for many of them, and each request's own answer.
Start with `batcher.py` (which requests go together), then `dispatcher.py` (when a call leaves).
"""
