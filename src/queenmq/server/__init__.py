"""Owns the HTTP edge and the composition root that wires store, engine and services together.

It turns requests into operations and results into replies. It decides nothing about messages.
"""
