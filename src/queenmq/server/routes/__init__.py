"""Owns the handlers, one module per group of routes.

A handler decodes once, calls the engine and encodes the answer; it holds no SQL and no policy.
"""
