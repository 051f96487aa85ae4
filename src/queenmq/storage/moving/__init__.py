"""Copies a whole database to another PostgreSQL, compares both, and leaves the old one at rest.

Start with `mover.py`. It uses its own two connections and needs no broker, but pauses running
brokers. `plan.py` decides the order of tables and judges the comparison.
"""

from __future__ import annotations
