"""Owns the HTTP edge and the composition root that wires store, engine and services together.

Turns requests into operations and results into replies; decides nothing about messages.
"""
