"""Sends requests: connections, retries, several servers, JSON.

Enters: a method, a path and a body. Leaves: a decoded answer or an error.
Start with `transport.py`.
"""
