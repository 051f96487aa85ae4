"""Counts what the HTTP side of a broker does: requests, messages, bytes, refusals, the process.

Enters: answers on their way out. Leaves: series in `queenmq.metrics`, and minutes for the history.
Start with `traffic.py` (messages), then `requests.py` (answers), then `scrape.py` (the report).
"""
