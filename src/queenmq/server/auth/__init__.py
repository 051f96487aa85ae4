"""Recognises callers for the server: keys, tokens, sessions, proxies; and notes what they did.

Does the I/O for `queenmq.auth`, which decides. Start with `gate.py`.
"""
