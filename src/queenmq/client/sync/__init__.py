"""Serves code without an event loop: `SyncQueen` and the objects that it returns.

There is no second implementation: calls go to a Queen in an event loop on a separate thread. Calls
may come from any number of threads at the same time. Start with `client.py`.
"""
