"""Builds everything that one broker process runs, and nothing else.

Start with `broker.py`, the composition root.
"""
