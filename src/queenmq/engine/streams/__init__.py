"""Commits cycles of streams: state, pushes and the ack of a partition together.

Enters: cycles of many clients. Leaves: one outcome for each. Start with `service.py`.
"""
