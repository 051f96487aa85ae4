"""Stores of counts, history and figures about PostgreSQL."""
