"""Serves code without an event loop: `SyncQueen` and what it gives out.

Nothing is written twice: calls are handed to a Queen that lives in an event loop on a thread of its
own. Calls may come from any number of threads at the same time. Start with `client.py`.
"""
