"""Answers about how the broker and PostgreSQL are doing, and switches."""
