"""Recognises callers: keys, tokens, sessions, proxies. Records what administrators do.

Does the I/O for `queenmq.auth`, which decides. Start with `gate.py`.
"""
