"""Owns the jobs of the background: each does one pass when asked, `periodic.py` repeats it.

Reaches the database only through the engine's ports, never through `storage`.
"""
