"""Gives payloads the types that a reader declares, and sets aside those that do not fit.

Enters: a schema in Spark's words and JSON texts. Leaves: typed values, or why there are none.
Start with `fitting.py`.
"""
