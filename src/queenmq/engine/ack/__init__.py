"""Ends leases: acks, failures, extensions and releases.

Enters: acks and lease requests. Leaves: one outcome for each. Start with `service.py`.
"""
