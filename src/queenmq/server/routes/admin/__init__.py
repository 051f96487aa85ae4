"""Serves the routes that change or list queues, groups, dead letters and queued pushes.

Each is a Starlette handler over one store.
"""
