"""Counts what a broker does, in memory that all of its worker processes share.

Each worker writes into a part of its own, so a count costs no lock. A scrape adds the parts up, so
the answer is the same from every worker. A worker that replaces a dead one goes on with its part,
so no counter ever falls. Start with `registry.py`, then `series.py`.
"""
