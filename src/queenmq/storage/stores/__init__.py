"""Turns calls of the engine, the routes and the services into SQL, one module for each subject.

Enters: plain values. Leaves: plain values. Start with `messages.py`, the store of the hot paths.
"""
