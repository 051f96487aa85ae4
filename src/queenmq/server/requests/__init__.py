"""Reads and checks what all routes share of a request: names, ids, counts, times."""
