"""Copies a whole database to another PostgreSQL, compares both, and leaves the old one at rest.

Start with `mover.py`. It works on two connections of its own and needs no broker, but pauses those
that run. `plan.py` decides the order of tables and judges the comparison.
"""

from __future__ import annotations
