"""Answers about the state of the broker and PostgreSQL, and switches."""
