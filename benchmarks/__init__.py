"""Measures a broker from outside with wrk; run.py is the way in. Never collected by the tests."""
