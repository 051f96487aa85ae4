"""Owns PostgreSQL: all SQL, the driver, migrations and the implementation of the engine's ports.

Decides nothing, and knows neither HTTP nor the wire format.
"""
