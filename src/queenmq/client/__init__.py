"""Owns the Python client: transport, buffering, retries, consumers.

Speaks HTTP through the wire types alone; never imports the broker's own layers.
"""
