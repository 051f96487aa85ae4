"""Owns the `queen` command and everything it prints, one module per command group.

Imports the server and the migrator only inside the command that needs them.
"""
