"""Connects to PostgreSQL: hosts, connections, priorities, faults and outages.

Enters: statements with a priority. Leaves: rows, or errors that say whose fault it is.
Start with `database.py`.
"""
