"""Owns the commands about access: tokens and the audit log."""
