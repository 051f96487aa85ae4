"""Builds everything that one broker process runs, and nothing else.

Start with `broker.py`, the composition root. `hearing.py` lists the subscribers of news,
`lifecycle.py` the background services.
"""
