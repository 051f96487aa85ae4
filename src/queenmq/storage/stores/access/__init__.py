"""Stores of tokens, of the audit log, and of the owner of an id."""
