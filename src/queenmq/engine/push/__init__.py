"""Stores messages: the push path from a checked request to its answer.

Enters: push requests. Leaves: one result for each message. Start with `service.py`.
"""
