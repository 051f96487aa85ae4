"""Writes DataFrames and streams to queues, each row once.

Enters: Arrow batches. Leaves: staged rows that one transaction publishes. Start with `writers.py`.
"""
