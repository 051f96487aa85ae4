"""Consumes messages: pops, handlers, acks and leases in one loop. Start with `consumer.py`."""
