"""The command line against a real broker."""
