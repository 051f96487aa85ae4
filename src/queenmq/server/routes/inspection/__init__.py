"""Serves the routes that only look: messages, status, traces, health, metrics.

Each is a Starlette handler over one store or over the engine's counters.
"""
