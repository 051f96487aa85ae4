"""Streams declared in a file: what the file says, the query it becomes, and what the query could
not use."""
