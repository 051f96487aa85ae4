"""Measures brokers from outside: how fast, and against what. Way in: run.py. No tests in here."""
