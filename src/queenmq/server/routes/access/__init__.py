"""Serves the routes about access itself: API tokens, sessions, the audit log."""
