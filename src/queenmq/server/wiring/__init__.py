"""Builds everything that one broker process runs, and nothing else.

Start with `broker.py`, the composition root. `hearing.py` says who hears which news, `lifecycle.py`
what runs in the background.
"""
