"""Sends messages, at once or from a buffer. Start with `pushing.py`."""
