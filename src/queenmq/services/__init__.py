"""Owns background work: each service does one pass when asked, one runner owns the loops.

Reaches the database only through the engine's ports, never through `storage`.
"""
