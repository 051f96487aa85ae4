"""`queen serve` as processes, looked at from outside: HTTP, signals, exit codes, SQL sessions."""
