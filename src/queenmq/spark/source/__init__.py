"""Reads queues into Spark: the batch and the streaming source.

Enters: options and filters. Leaves: Arrow batches of messages. Start with `data_source.py`.
"""
