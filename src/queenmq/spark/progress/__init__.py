"""Paces streams and reports how far they are.

Enters: positions of a stream. Leaves: whether a batch waits for more messages, and figures for
Spark's progress. Start with `measures.py`; `reports.py` reads the figures back.
"""
