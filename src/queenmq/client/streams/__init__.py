"""Owns streams: windows, aggregations and gates over a queue, with state kept by the broker.

Enters: a chain of steps. Leaves: cycles of state, pushes and acks. Start with `stream.py` (the
builder), then `batch.py` (what a batch of messages does), then `runner.py` (the loop).
"""
