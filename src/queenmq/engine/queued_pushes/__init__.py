"""Stores pushes that were answered before they were stored.

Enters: pushes from the operation queue and from the spool. Leaves: the same pushes in the message
table, in the order in which they were accepted. Start with `processor.py`.
"""
